import sys

from tools.new_model.new_model import main

sys.exit(main())
