import sys

from tools.boardsim.boardsim import main

sys.exit(main())
