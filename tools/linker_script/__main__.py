import sys

from tools.linker_script.linker_script import main

sys.exit(main())
