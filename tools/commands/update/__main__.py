import sys

from tools.commands.update.update import main

sys.exit(main())
