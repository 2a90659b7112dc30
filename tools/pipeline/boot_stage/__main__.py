import sys

from tools.pipeline.boot_stage.boot_stage import main

sys.exit(main())
