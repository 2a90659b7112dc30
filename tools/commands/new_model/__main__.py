import sys

from tools.commands.new_model.new_model import main

sys.exit(main())
