import sys

from boardsim.boardsim import main

sys.exit(main())
