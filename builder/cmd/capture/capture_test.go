package capture

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/verb"
	"spore/wire/machine"
)

func packet(text string, length int) machine.Packet {
	return machine.Packet{At: 1_700_000_000_000_000_123, Length: length, Data: []byte(text)}
}

func TestPacketsAreWrittenAsTheyCome(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.pcap")
	f := &file{options: options{output: name}}
	require.NoError(t, f.add(machine.Captured{Link: machine.LinkEthernet, Snap: 100}))
	require.NoError(t, f.add(machine.Captured{Packets: []machine.Packet{packet("one", 3), packet("tw", 1500)}, Dropped: 4}))
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	r, err := pcapgo.NewReader(bytes.NewReader(data)) // Before the end: what came is in the file.
	require.NoError(t, err)
	require.Equal(t, layers.LinkTypeEthernet, r.LinkType())
	got, info, err := r.ReadPacketData()
	require.NoError(t, err)
	require.Equal(t, "one", string(got))
	require.True(t, info.Timestamp.Equal(time.Unix(1_700_000_000, 123)))
	_, info, err = r.ReadPacketData()
	require.NoError(t, err)
	require.Equal(t, 1500, info.Length)
	require.Equal(t, 2, info.CaptureLength)
	_, _, err = r.ReadPacketData()
	require.ErrorIs(t, err, io.EOF)
	require.EqualValues(t, 2, f.packets)
	require.EqualValues(t, 4, f.dropped)
	require.NoError(t, f.close())
	info2, err := os.Stat(name)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info2.Mode().Perm())
	again := &file{options: options{output: name}}
	require.ErrorIs(t, again.add(machine.Captured{Link: machine.LinkEthernet, Snap: 100}), os.ErrExist)
	again.force = true
	require.NoError(t, again.add(machine.Captured{Link: machine.LinkCooked, Snap: 100}))
	require.NoError(t, again.close())
}

func TestWhatIsNotAPacketIsRefused(t *testing.T) {
	for name, c := range map[string]machine.Captured{
		"longer than asked for":     {Packets: []machine.Packet{packet(string(make([]byte, 200)), 200)}},
		"longer than it was":        {Packets: []machine.Packet{packet("abc", 2)}},
		"of a length that none has": {Packets: []machine.Packet{packet("abc", 1<<30)}},
		"of a time before 1970":     {Packets: []machine.Packet{{At: -1, Length: 1, Data: []byte("a")}}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			f := &file{options: options{output: "-"}, stdout: &out}
			require.NoError(t, f.add(machine.Captured{Link: machine.LinkEthernet, Snap: 100}))
			require.ErrorContains(t, f.add(c), "malformed")
			require.NoError(t, f.close())
		})
	}
	for name, c := range map[string]machine.Captured{
		"no link": {Snap: 100}, "another link": {Link: 9, Snap: 100}, "no length": {Link: 1}, "too long": {Link: 1, Snap: 1 << 20},
	} {
		f := &file{options: options{output: "-"}, stdout: io.Discard}
		require.ErrorContains(t, f.add(c), "does not begin with the link", name)
	}
}

func TestAnOutputIsNamedAndIsNotThere(t *testing.T) {
	there := filepath.Join(t.TempDir(), "a.pcap")
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	require.ErrorContains(t, options{}.checkOutput(), "-o FILE")
	require.ErrorContains(t, options{output: there}.checkOutput(), "is there already")
	require.NoError(t, options{output: there, force: true}.checkOutput())
	require.NoError(t, options{output: there + "2"}.checkOutput())
	require.NoError(t, options{dryRun: true}.checkOutput())
}

func TestAnOrderIsWhatTheFlagsSay(t *testing.T) {
	o := options{filter: "tcp port 443", lasts: 1500 * time.Millisecond, packets: 5, bytes: 6, snap: 64, withAPI: true}
	require.Equal(t, map[string]string{"filter": "tcp port 443", "interface": "", "seconds": "2", "packets": "5", "bytes": "6", "snap": "64", "api": "yes"}, o.order().Arguments)
	v := verb.Row("capture")
	require.NoError(t, v.Check(o.order()))
	o.filter = "port http"
	require.ErrorContains(t, v.Check(o.order()), "is not a port number")
	o.filter, o.lasts = "", time.Hour
	require.ErrorContains(t, v.Check(o.order()), "seconds")
}
