import sys

from tools.verify.run_firmware.run_firmware import main

sys.exit(main())
