package status

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/delivery"
	"spore/agent/paths"
	"spore/agent/pull/looked"
	"spore/agent/sealed"
	"spore/agent/slot"
	"spore/agent/watchdog"
)

func TestStatusIsWhatTheDaemonWroteLast(t *testing.T) {
	root := paths.Root(t.TempDir())
	require.NoError(t, os.MkdirAll(filepath.Dir(root.At(paths.Status)), 0o755))
	_, err := Show(root, false)
	require.ErrorContains(t, err, "there is no status yet")
	l := Line{Spore: 1, Cluster: "plant", Node: "a", Matched: &Matched{By: "mac", Value: "x"}, Roles: []string{"dns-server"}, System: "running"}
	require.NoError(t, os.WriteFile(root.At(paths.Status), []byte(l.String()+"\n"), 0o644))
	line, err := Show(root, true)
	require.NoError(t, err)
	require.Equal(t, l.String()+"\n", line)
	require.Contains(t, Text(l), "node       a of cluster plant, by mac x\nsystem     running\nroles      dns-server\n")
	l.NoCloud = &NoCloud{From: []string{"the volume /dev/sr0 (iso9660)"}, NotTaken: []string{"user-data: users", "user-data: runcmd"}}
	require.Contains(t, Text(l), "nocloud    the volume /dev/sr0 (iso9660); not taken: user-data: users, user-data: runcmd\n")
	l.NoCloud.Problem, l.NoCloud.NotTaken = "they disagree", nil
	require.Contains(t, Text(l), "nocloud    they disagree\n")
	l.Bundle = &delivery.Info{Serial: 3, From: delivery.Medium, Sealed: sealed.TPM, Problem: "the bundle stays"}
	l.Bundle.From = delivery.NoCloud
	require.Contains(t, Text(l), "bundle     3, from the user-data of NoCloud, sealed to the TPM\n")
	l.Bundle.From = delivery.Network
	require.Contains(t, Text(l), "bundle     3, from the network, sealed to the TPM\n")
	l.Bundle.From = delivery.Medium
	require.Contains(t, Text(l), "bundle     3, from the boot medium, sealed to the TPM\n           the bundle stays\n")
	l.BuildTime = 1_790_000_000
	l.Configuration = &slot.Info{RootHash: "617fc5cacd632993", ClusterHash: "fbab57222e31e539", Serial: 7, Trial: true, Problem: "p"}
	require.Contains(t, Text(l), "image      617fc5cacd63 of 2026-09-21 14:13\nconfig     7, fbab57222e31e539…, on trial\n           p\n")
	l.Configuration = &slot.Info{RootHash: "617fc5cacd632993", ClusterHash: "fb", Staged: "90", StagedRoot: "0a55cd9632993c5f"}
	require.Contains(t, Text(l), "config     fb…; 90… with the root 0a55cd9632993c5f… at the next start\n")
	require.NotContains(t, Text(l), "watchdog")
	require.NotContains(t, Text(l), "updates")
	l.Updates = &looked.Last{At: time.Unix(1_790_000_000, 0), From: "https://x", Result: "update 8 is written"}
	require.Contains(t, Text(l), "updates    looked at 2026-09-21T14:13:20Z at https://x: update 8 is written\n")
	l.Updates = &looked.Last{At: time.Unix(1_790_000_000, 0), Problem: "no route"}
	require.Contains(t, Text(l), "updates    looked at 2026-09-21T14:13:20Z: no route\n")
	for text, w := range map[string]watchdog.Info{
		"watchdog   iTCO_wdt, restarts the machine when it hangs for 60 s\n":                                   {Identity: "iTCO_wdt", Seconds: 60, Held: true},
		"watchdog   iTCO_wdt, restarts the machine when it hangs for 60 s; it has done so before this start\n": {Identity: "iTCO_wdt", Seconds: 60, Held: true, HasReset: true},
		"watchdog   without a name, not in use\n":                                                              {},
	} {
		l.Watchdog = &w
		require.Contains(t, Text(l), text)
	}
	require.Contains(t, Text(Line{Cluster: "plant", Problem: "who is it"}), "problem    who is it\n")
}

func TestTheTextSaysWhichSystemIsStaged(t *testing.T) {
	for name, tt := range map[string]struct {
		info slot.Info
		want string
	}{
		"of the image":         {slot.Info{ClusterHash: "aa"}, "aa…"},
		"on trial":             {slot.Info{ClusterHash: "aa", Serial: 3, Trial: true}, "3, aa…, on trial"},
		"a configuration":      {slot.Info{ClusterHash: "aa", Staged: "bb"}, "aa…; bb… at the next start"},
		"one in effect":        {slot.Info{ClusterHash: "aa", Staged: "bb", Live: true}, "aa…; bb… in effect already, and at the next start"},
		"with another root":    {slot.Info{ClusterHash: "aa", Staged: "bb", StagedRoot: "cc"}, "aa…; bb… with the root cc… at the next start"},
		"another root came up": {slot.Info{ClusterHash: "aa", Serial: 4, Other: "aa", OtherRoot: "cc"}, "4, aa…"},
	} {
		require.Equal(t, tt.want, configurationText(tt.info), name)
	}
}
