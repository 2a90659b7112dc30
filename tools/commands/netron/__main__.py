import sys

from tools.commands.netron.netron import main

sys.exit(main())
