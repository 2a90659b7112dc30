import sys

from tools.commands.verify.verify import main

sys.exit(main())
