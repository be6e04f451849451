package build

import (
	"bytes"
	"context"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
)

func TestFormatsOfTheCommandLineWinOverThoseOfTheConfiguration(t *testing.T) {
	for _, tt := range []struct{ flag, configured, want []string }{
		{nil, nil, []string{"disk"}},
		{nil, []string{"uki"}, []string{"uki"}},
		{[]string{"disk"}, []string{"uki"}, []string{"disk"}},
	} {
		got, err := chooseFormats(tt.flag, tt.configured)
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
	}
	_, err := chooseFormats([]string{"floppy"}, nil)
	require.Equal(t, exit.Misuse, exit.Code(err))
}

func TestABadConfigurationBuildsNothing(t *testing.T) {
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Command("0"))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"build", t.TempDir(), "-o", t.TempDir(), "--cache", t.TempDir()})
	require.Equal(t, exit.Failed, exit.Run(context.Background(), root))
	require.Contains(t, out.String(), "cluster.yaml:1:1: error: cannot be read")
	require.Contains(t, out.String(), "nothing was built")
}

func TestALockedBuildTakesNothingNewer(t *testing.T) {
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Command("0"))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"build", "--locked", "--update"})
	require.Equal(t, exit.Misuse, exit.Run(t.Context(), root))
	require.Contains(t, out.String(), "leave one of them out")
}
