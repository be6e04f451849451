package install

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/install"
	"spore/agent/nodetest"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/wire/nodeapi"
)

// disk is one that can be installed on.
var disk = install.Offer{Disk: "/dev/nvme0n1", Name: "S1", Size: 1 << 30, Holds: "nothing", Bundle: "medium"}

type writer struct {
	fails   error
	written int
}

func (w *writer) Write(_ context.Context, say func(string)) (string, error) {
	w.written++
	say("writing 42 %")
	return "installed on /dev/nvme0n1", w.fails
}

func call(t *testing.T, offer install.Offer, o nodeapi.Order, fails error) (verbstest.Answer, int) {
	t.Helper()
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	o.Arguments = map[string]string{"disk": "S1"}
	w := &writer{fails: fails}
	a := verbstest.Call(t, m, "install", o, func(ctx context.Context, r *verbs.Run) (string, error) {
		return carryOut(ctx, r, offer, w)
	})
	return a, w.written
}

func TestTheSystemIsInstalledWhereTheDiskWasRepeated(t *testing.T) {
	a, written := call(t, disk, nodeapi.Order{Confirm: "S1"}, nil)
	require.NoError(t, a.Err)
	require.Equal(t, 1, written)
	require.Equal(t, []string{"the disk gets the medium's bundle", "writing 42 %"}, a.Said)
	require.Equal(t, "installed on /dev/nvme0n1. Take the medium out, and start the machine again: "+
		"spore reboot --node node-00000", a.Done)
	var shown install.Offer
	require.Len(t, a.Results, 1)
	require.NoError(t, json.Unmarshal(a.Results[0], &shown))
	require.Equal(t, disk, shown)
}

func TestAnotherWordWritesNothing(t *testing.T) {
	for _, word := range []string{"S2", "s1", "/dev/nvme0n1", "node-00000"} {
		a, written := call(t, disk, nodeapi.Order{Confirm: word}, nil)
		require.ErrorContains(t, a.Err, "this installs on /dev/nvme0n1 (serial S1, 1024 MiB), which holds: nothing, and the order is about")
		require.Zero(t, written)
	}
	a, written := call(t, disk, nodeapi.Order{}, nil)
	require.Error(t, a.Err)
	require.Zero(t, written)
}

func TestADryRunSaysWhatWouldBeWrittenTo(t *testing.T) {
	for from, want := range map[string]string{
		"":        "the disk gets no bundle: its first start needs one from the firmware, or a stick",
		"medium":  "the disk gets the medium's bundle",
		"nocloud": "the disk gets the bundle of NoCloud's user-data",
		"state":   "the disk gets the bundle that the node keeps, which is readable there until its first start",
	} {
		offer := disk
		offer.Bundle = from
		a, written := call(t, offer, nodeapi.Order{DryRun: true}, nil)
		require.NoError(t, a.Err)
		require.Zero(t, written)
		require.Equal(t, []string{want}, a.Said)
		require.Equal(t, "would install on /dev/nvme0n1 (serial S1, 1024 MiB), which holds: nothing; nothing was written", a.Done)
	}
}

func TestWhatFailsIsNotCalledDone(t *testing.T) {
	a, written := call(t, disk, nodeapi.Order{Confirm: "S1"}, errors.New("the disk is broken"))
	require.EqualError(t, a.Err, "the disk is broken")
	require.Equal(t, 1, written)
	require.Empty(t, a.Done)
}

func TestANameThatChangesIsNoDisk(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	o := nodeapi.Order{Arguments: map[string]string{"disk": "/dev/sda"}, DryRun: true}
	require.ErrorContains(t, verbstest.Call(t, m, "install", o, Install).Err, "changes from boot to boot")
}
