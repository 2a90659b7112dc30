import sys

from tools.gdb.gdb import main

sys.exit(main())
