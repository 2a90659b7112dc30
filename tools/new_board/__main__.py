import sys

from tools.new_board.new_board import main

sys.exit(main())
