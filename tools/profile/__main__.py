import sys

from tools.profile.profile import main

sys.exit(main())
