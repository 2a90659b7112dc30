import sys

from tools.commands.copy.copy import main

sys.exit(main())
