import sys

from tools.flash.flash import main

sys.exit(main())
