package recipe

import (
	_ "embed"
	"fmt"
	"slices"
)

const killPath = "/usr/bin/kill"

//go:embed kill.sh
var killScript []byte

// layKill gives an image kill(1) where one of its units calls it and no package has it. Units of Debian reload their
// daemons with /bin/kill of procps, which no package depends on: a Debian without it is rare.
func layKill(b *build) error {
	if b.runnable(killPath) == "" || b.runnable("/bin/sh") != "" {
		return nil
	}
	for _, name := range b.unitNames() {
		commands, err := b.commands(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if slices.ContainsFunc(commands, func(c unitCommand) bool {
			return c.program == killPath || c.program == "/bin/kill" || c.program == "kill"
		}) {
			return b.file(killPath, killScript, 0o755, "units call it: "+name)
		}
	}
	return nil
}
