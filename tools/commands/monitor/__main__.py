import sys

from tools.commands.monitor.monitor import main

sys.exit(main())
