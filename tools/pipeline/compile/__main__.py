import sys

from tools.pipeline.compile.compile import main

sys.exit(main())
