import sys

from tools.pipeline.package.package import main

sys.exit(main())
