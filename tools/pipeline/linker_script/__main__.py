import sys

from tools.pipeline.linker_script.linker_script import main

sys.exit(main())
