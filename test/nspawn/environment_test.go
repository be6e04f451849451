//go:build e2e

package nspawn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services"
)

// process is the main process of a unit.
func (n *Node) process(unit string) string {
	n.lab.t.Helper()
	pid := n.MustExec("systemctl", "show", "--value", "--property=MainPID", unit)
	require.NotEqual(n.lab.t, "0", pid, "%s of %s does not run", unit, n.Facts.Name)
	return pid
}

// commandLine are the words that a unit's process was started with.
func (n *Node) commandLine(unit string) []string {
	n.lab.t.Helper()
	return strings.Split(n.MustExec("sh", "-c", `tr '\0' '\n' < "/proc/$0/cmdline"`, n.process(unit)), "\n")
}

// runsWithItsFile requires that the unit of a program reads the program's file in /etc/cluster-config/environment, that the file holds
// these lines and no others, and that the running process has them in its environment and these words on its command line.
func (n *Node) runsWithItsFile(t *testing.T, program string, lines, words []string) {
	t.Helper()
	unit, file := program+".service", services.EnvironmentDir+"/"+program+".env"
	require.Contains(t, n.MustExec("systemctl", "show", "--property=EnvironmentFiles", unit), file+" (ignore_errors=no)")
	require.Equal(t, lines, strings.Split(n.MustExec("cat", file), "\n"))
	environment := strings.Split(n.MustExec("sh", "-c", `tr '\0' '\n' < "/proc/$0/environ"`, n.process(unit)), "\n")
	for _, l := range lines {
		name, value, _ := strings.Cut(l, "=")
		require.Contains(t, environment, name+"="+strings.Trim(value, `"`))
	}
	require.Subset(t, n.commandLine(unit), words)
}
