import sys

from tools.commands.flash.flash import main

sys.exit(main())
