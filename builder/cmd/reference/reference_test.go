package reference

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/root"
)

func TestTheCommittedPageIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/commands.md")
	require.NoError(t, err)
	require.Equal(t, string(Page(root.Command())), string(page), "run go generate ./builder/cmd/reference")
}

// visible calls f for each command that a user sees.
func visible(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			visible(sub, f)
		}
	}
}

func TestEveryCommandIsOnThePage(t *testing.T) {
	program := root.Command()
	page := string(Page(program))
	for _, top := range program.Commands() {
		if !top.IsAvailableCommand() {
			require.NotContains(t, page, top.CommandPath()+"\n", "a hidden command")
			continue
		}
		require.NotEmpty(t, top.GroupID, "%s has a group", top.CommandPath())
		visible(top, func(c *cobra.Command) {
			require.Contains(t, page, "# "+c.CommandPath()+"\n")
		})
	}
}

func TestHelpIsForPeopleWhoSearch(t *testing.T) {
	visible(root.Command(), func(c *cobra.Command) {
		require.Less(t, len(c.Short), 90, "%s: one line of a terminal", c.CommandPath())
		require.NotRegexp(t, `[.:]$`, c.Short, c.CommandPath())
		for _, line := range strings.Split(c.Long, "\n") {
			// Characters of a terminal, not bytes.
			require.LessOrEqual(t, len([]rune(line)), 120, "%s: %q", c.CommandPath(), line)
		}
		if c.Runnable() {
			require.NotEmpty(t, c.Example, "%s has an example", c.CommandPath())
		}
	})
	words := map[string]string{
		"spore flash": "USB stick", "spore serve": "PXE", "spore boot": "QEMU", "spore push": "Update", "spore kubeconfig": "kubectl",
		"spore snapshots": "etcd", "spore lock": "version", "spore pki": "certificates", "spore keys": "Secure Boot", "spore logs": "logs",
	}
	visible(root.Command(), func(c *cobra.Command) {
		require.Contains(t, c.Short, words[c.CommandPath()])
	})
}

func TestAPage(t *testing.T) {
	program := &cobra.Command{Use: "tool"}
	program.AddGroup(&cobra.Group{ID: "g", Title: "Do things:"})
	run := func(*cobra.Command, []string) {}
	top := &cobra.Command{Use: "do X", Short: "Do a|b", Long: "Do does:\n\n  a  this\n  b  that", Example: "  tool do a", GroupID: "g", Run: run}
	top.Flags().Bool("fast", false, "be fast")
	top.AddCommand(&cobra.Command{Use: "more", Short: "More", Run: run}, &cobra.Command{Use: "secret", Hidden: true, Run: run})
	program.AddCommand(top, &cobra.Command{Use: "alone", Short: "Without a group", Run: run})
	page := string(Page(program))
	want := "\n## Do things\n\n| command | what it does |\n|---|---|\n| [`tool do`](#tool-do) | Do a\\|b |\n\n" +
		"### tool do\n\nDo a|b.\n\n```\ntool do X [flags]\n```\n\nDo does:\n\n```\na  this\nb  that\n```\n\n" +
		"Examples:\n\n```\ntool do a\n```\n\nFlags:\n\n```\n    --fast   be fast\n-h, --help   help for do\n```\n\n" +
		"#### tool do more\n\nMore.\n\n```\ntool do more [flags]\n```\n\nFlags:\n\n```\n-h, --help   help for more\n```\n"
	require.True(t, strings.HasSuffix(page, want), page)
	require.NotContains(t, page, "secret")
	require.NotContains(t, page, "alone")
}
