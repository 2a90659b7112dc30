import sys

from tools.pipeline.cmake_build.cmake_build import main

sys.exit(main())
