import sys

from tools.commands.new_board.new_board import main

sys.exit(main())
