package exit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"done", []string{"ok"}, OK, ""},
		{"the work failed", []string{"fail"}, Failed, "spore fail: no luck\n"},
		{"an unknown command is wrong usage", []string{"nope"}, Misuse, "unknown command"},
		{"an unknown flag is wrong usage", []string{"ok", "--nope"}, Misuse, "see: spore ok --help"},
		{"too many arguments are wrong usage", []string{"ok", "x"}, Misuse, "see: spore ok --help"},
		{"what it ran has an exit status of its own", []string{"status"}, 37, ""},
		{"help is no error", []string{"ok", "--help"}, OK, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
			root.AddCommand(
				&cobra.Command{Use: "ok", Args: Args(cobra.NoArgs), RunE: func(*cobra.Command, []string) error { return nil }},
				&cobra.Command{Use: "status", RunE: func(*cobra.Command, []string) error { return fmt.Errorf("x: %w", Status(37)) }},
				&cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error { return errors.New("no luck") }},
			)
			var errOut bytes.Buffer
			root.SetErr(&errOut)
			root.SetOut(&bytes.Buffer{})
			root.SetArgs(tt.args)
			require.Equal(t, tt.code, Run(context.Background(), root))
			require.Contains(t, errOut.String(), tt.out)
			if tt.code == 37 {
				require.Empty(t, errOut.String(), "it has said itself what it had to say")
			}
		})
	}
}
