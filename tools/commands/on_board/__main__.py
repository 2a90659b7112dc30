import sys

from tools.commands.on_board.on_board import main

sys.exit(main())
