import sys

from tools.commands.explore.explore import main

sys.exit(main())
