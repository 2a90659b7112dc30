import sys

from tools.commands.profile.profile import main

sys.exit(main())
