import sys

from tools.commands.capture.capture import main

sys.exit(main())
