package slot

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/pieces"
	"spore/wire/update"
)

func TestAnObjectThatWasChangedOnTheWayIsAskedForAgain(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"a bit":          func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b },
		"a byte less":    func(b []byte) []byte { return b[:len(b)-1] },
		"a byte more":    func(b []byte) []byte { return append(bytes.Clone(b), 0) },
		"something else": func([]byte) []byte { return []byte("else") },
	} {
		for which := range 3 {
			t.Run(fmt.Sprint(name, " ", which), func(t *testing.T) {
				disk := newDisk(t, oldSystem)
				m := machineOf(t, disk, oldSystem)
				p := newSystem.withRoot(newRoot, "").pusher(t, 3, nil)
				bad := pieces.SumOf(newSystem.withRoot(newRoot, "").objects(t)[[]int{0, 1, 2}[which]])
				good := p.objects[bad]
				p.objects[bad] = change(good)
				_, err := p.run(t, m)
				require.ErrorContains(t, err, "the node asks again for what it was sent")
				s, _ := boots(t, disk, oldSystem)
				require.Equal(t, oldSystem.hash, s.hash)

				p.objects[bad] = good
				_, err = p.run(t, m)
				require.NoError(t, err)
				s, _ = boots(t, disk, oldSystem, newSystem.withRoot(newRoot, ""))
				require.Equal(t, newRoot.hash, s.root.hash)
			})
		}
	}
}

// What was sent before the operator's machine went away is not sent again.
func TestABrokenTransferGoesOnWhereItStopped(t *testing.T) {
	whole := both.pusher(t, 2, nil)
	_, err := whole.run(t, machineOf(t, newDisk(t, oldSystem), oldSystem))
	require.NoError(t, err)
	for most := 1; ; most++ {
		disk := newDisk(t, oldSystem)
		m := machineOf(t, disk, oldSystem)
		first := both.pusher(t, 2, nil)
		first.batch, first.most = 3, most
		if _, err := first.run(t, m); err == nil {
			require.Greater(t, most, 4)
			return
		} else {
			require.ErrorIs(t, err, errKilled)
		}
		s, _ := boots(t, disk, oldSystem)
		require.Equal(t, rootHash, s.root.hash)
		// The node was restarted meanwhile, and the folder signed anew.
		second := both.pusher(t, 3, nil)
		again := machineOf(t, disk, oldSystem)
		again.Record, again.Work, again.BootID = m.Record, m.Work, "later"
		_, err = second.run(t, again)
		require.NoError(t, err)
		boots(t, disk, both)
		unsent := max(0, sizeOf(first.sent)-sizeOf(first.sent[max(0, len(first.sent)-3):])) // The last message was not sent.
		require.Equal(t, sizeOf(whole.sent), unsent+sizeOf(second.sent), "after %d messages", most)
	}
}

func TestAMessageThatIsCutKeepsWhatCame(t *testing.T) {
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	message := both.head(t, 2, nil)
	all := both.objects(t)
	for _, o := range all[:len(all)-2] {
		message = update.AppendObject(message, o)
	}
	msg, err := OpenMessage(bytes.NewReader(message[:len(message)-5]), signingKeys)
	require.NoError(t, err)
	_, err = Stage(*m, msg, Wish{})
	require.ErrorIs(t, err, update.ErrForm)
	p := both.pusher(t, 2, nil)
	_, err = p.run(t, m)
	require.NoError(t, err)
	require.LessOrEqual(t, len(p.sent), 3)
}

func TestAFileWithAllObjectsTakesOneMessage(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	message := both.head(t, 2, nil)
	for _, o := range both.objects(t) {
		message = update.AppendObject(message, o)
	}
	msg, err := OpenMessage(bytes.NewReader(message), signingKeys)
	require.NoError(t, err)
	got, err := Stage(*m, msg, Wish{})
	require.NoError(t, err)
	require.Nil(t, got.Lacks)
	boots(t, disk, both)
}

// What the running root, its index or its UKI should have and does not is asked for.
func TestPiecesThatTheMachineCannotGiveAreSent(t *testing.T) {
	whole := both.pusher(t, 2, nil)
	_, err := whole.run(t, machineOf(t, newDisk(t, oldSystem), oldSystem))
	require.NoError(t, err)
	shared := int64(slices.IndexFunc(someRoot.index, func(p pieces.Piece) bool { return slices.Contains(newRoot.index, p) }))
	for name, damage := range map[string]func(*medium){
		"a bit of the root": func(d *medium) { d.put([]byte{0xff, 0xee, 0xdd}, rootA+int64(len(makeRoot("kernel").data))) },
		"the index":         func(d *medium) { d.put([]byte("x"), treeA+int64(len(someRoot.tree))) },
		"a hash in the index": func(d *medium) {
			d.put([]byte("xyz"), treeA+int64(len(someRoot.tree))+12+4*int64(len(someRoot.index))+32*shared)
		},
		"a size in the index":       func(d *medium) { d.put([]byte{0, 0, 0, 9}, treeA+int64(len(someRoot.tree))+12) },
		"an index of other content": func(d *medium) { d.put(encoded(makeRoot("x y").index), treeA+int64(len(someRoot.tree))) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t, oldSystem)
			damage(disk)
			p := both.pusher(t, 2, nil)
			_, err := p.run(t, machineOf(t, disk, oldSystem))
			require.NoError(t, err)
			boots(t, disk, both)
			require.Greater(t, sizeOf(p.sent), sizeOf(whole.sent))
		})
	}
}

func TestTwoUpdatesAtOnce(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	newer := both.pusher(t, 8, nil)
	newer.batch, newer.most = 3, 4
	_, err := newer.run(t, m)
	require.ErrorIs(t, err, errKilled)
	older := newSystem.withRoot(makeRoot("other things"), "")
	_, err = older.push(t, m, 7, nil)
	require.ErrorContains(t, err, "a newer update (8) is on its way to this node already")
	require.DirExists(t, m.Work, "the newer one goes on")
	newest := older.pusher(t, 9, nil)
	newest.batch, newest.most = 3, 4
	_, err = newest.run(t, m)
	require.ErrorIs(t, err, errKilled)
	_, err = both.push(t, m, 8, nil)
	require.ErrorContains(t, err, "a newer update (9)")
	_, err = both.push(t, m, 8, func(h *update.Head) { h.Force = true })
	require.NoError(t, err, "by the operator's word")
	boots(t, disk, both)
}

func TestProgressThatIsNoneIsNoProgress(t *testing.T) {
	key := pieces.Sum{1}
	p := newProgress(11)
	for _, i := range []int{0, 3, 10, 3} {
		p.mark(i)
	}
	p.mark(7)
	p.unmark(7)
	p.unmark(1)
	p.searched, p.unheld = true, true
	require.Equal(t, 8, p.left)
	good := p.encode(key)
	again, ok := parseProgress(good, key, 11)
	require.True(t, ok)
	require.Equal(t, p, again)
	change := func(at int, to byte) []byte { b := bytes.Clone(good); b[at] = to; return b }
	for name, bad := range map[string][]byte{
		"nothing": nil, "cut": good[:len(good)-1], "longer": append(bytes.Clone(good), 0), "another magic": change(0, 'x'),
		"of something else": change(8, 2), "an unknown flag": change(progressHead-1, 8),
		"a piece that is not there": change(len(good)-1, 8),
	} {
		got, ok := parseProgress(bad, key, 11)
		require.False(t, ok, name)
		require.Equal(t, newProgress(11), got, name)
	}
}

func FuzzParseProgress(f *testing.F) {
	p := newProgress(11)
	p.mark(4)
	f.Add(p.encode(pieces.Sum{}), uint16(11))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, count uint16) {
		p, ok := parseProgress(data, pieces.Sum{}, int(count))
		if ok {
			require.Equal(t, data, p.encode(pieces.Sum{}))
		}
	})
}

// The state is not trusted more than a hint: whatever lies in the working directory, an update ends whole.
func TestWorkingFilesMayBeAnything(t *testing.T) {
	for _, name := range []string{"boot.index", "root.index", "boot.progress", "root.progress", "uki", "part", "begun.json"} {
		for what, damage := range map[string]func([]byte) []byte{
			"empty": func([]byte) []byte { return nil },
			"a bit": func(b []byte) []byte { b[len(b)-1] ^= 0x40; return b },
			"all bits": func(b []byte) []byte {
				return append(bytes.Clone(b[:min(len(b), progressHead)]), bytes.Repeat([]byte{0xff}, max(0, len(b)-progressHead))...)
			},
			"text": func([]byte) []byte { return []byte(strings.Repeat("text\n", 1000)) },
		} {
			t.Run(fmt.Sprint(name, " ", what), func(t *testing.T) {
				disk := newDisk(t, oldSystem)
				m := machineOf(t, disk, oldSystem)
				p := both.pusher(t, 2, nil)
				p.batch, p.most = 3, 4
				_, err := p.run(t, m)
				require.ErrorIs(t, err, errKilled)
				path := filepath.Join(m.Work, name)
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, damage(data), 0o600))
				for range 3 { // What was thought to be there is found out at the end, and asked for the next time.
					if _, err = both.push(t, m, 2, nil); err == nil {
						break
					}
				}
				require.NoError(t, err)
				boots(t, disk, both)
			})
		}
	}
}
