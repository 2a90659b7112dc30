import sys

from tools.commands.gdb.gdb import main

sys.exit(main())
