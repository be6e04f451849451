package dhcplease

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const networkdFile = `# This is private data. Do not parse.
ADDRESS=10.77.0.142
NETMASK=255.255.255.0
ROUTER=10.77.0.2
SERVER_ADDRESS=10.77.0.2
NEXT_SERVER=0.0.0.0
LIFETIME=3600
DNS=10.77.0.3 10.77.0.4
DOMAINNAME=plant.example
HOSTNAME=dns-01
CLIENTID=01525400770098
`

func TestRead(t *testing.T) {
	dir := fstest.MapFS{"2": {Data: []byte(networkdFile)}, "3": {Data: []byte("ROUTER=10.0.0.1\n")}}
	l, ok := Read(dir, 2)
	require.True(t, ok)
	require.Equal(t, Lease{Address: "10.77.0.142", Hostname: "dns-01", Domain: "plant.example", DNS: []string{"10.77.0.3", "10.77.0.4"}}, l)
	_, ok = Read(dir, 3)
	require.False(t, ok, "a file without an address is no lease")
	_, ok = Read(dir, 4)
	require.False(t, ok, "no file is no lease")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(networkdFile))
	f.Add([]byte("ADDRESS=\nADDRESS"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if l, ok := Parse(data); ok {
			require.NotEmpty(t, l.Address)
		}
	})
}
