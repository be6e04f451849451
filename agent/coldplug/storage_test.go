package coldplug

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStorage(t *testing.T) {
	withUdev, without := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(withUdev, "control"), nil, 0o600))
	broken := errors.New("broken")
	trigger, settle := "udevadm trigger --type=devices --action=add --attr-match=class=0x01*", "udevadm settle --timeout=60"
	for name, c := range map[string]struct {
		run, fails string
		ran        []string
		err        string
	}{
		"with udev":             {run: withUdev, ran: []string{trigger, settle}},
		"without udev":          {run: without},
		"nothing is triggered":  {run: withUdev, fails: "trigger", ran: []string{trigger}, err: "look for storage controllers: broken"},
		"a controller is stuck": {run: withUdev, fails: "settle", ran: []string{trigger, settle}, err: "wait for the disks of storage controllers: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			err := Storage(t.Context(), c.run, time.Minute, func(_ context.Context, _ []string, name string, args ...string) error {
				ran = append(ran, name+" "+strings.Join(args, " "))
				if args[0] == c.fails {
					return broken
				}
				return nil
			})
			require.Equal(t, c.ran, ran)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.err)
			require.ErrorIs(t, err, broken)
		})
	}
}
