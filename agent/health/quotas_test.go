package health

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestTheQuotasOfDirectories(t *testing.T) {
	of := func(path string, quota, size, free uint64) Quota {
		is := Space{Bytes: size << 20, FreeBytes: free << 20, Files: 1024, FreeFiles: 1000}
		return Quota{Path: path, Bytes: quota << 20, Is: is}
	}
	full := of("/var/lib/a", 16, 16, 16)
	full.Is.FreeFiles = 3
	for name, tt := range map[string]struct {
		quotas []Quota
		is     nodeapi.State
		reason string
	}{
		"none": {},
		"one":  {[]Quota{of("/var/lib/a", 16, 16, 12)}, nodeapi.OK, "75 % of /var/lib/a is free (12 of 16 MiB)"},
		"two, of which one is full": {[]Quota{of("/var/lib/a", 16, 16, 0), of("/var/lib/b", 10, 10, 9)}, nodeapi.Warning,
			"0 % of /var/lib/a is free (0 of 16 MiB); 90 % of /var/lib/b is free (9 of 10 MiB)"},
		"no room for files": {[]Quota{full}, nodeapi.Warning,
			"100 % of /var/lib/a is free (16 of 16 MiB), and room for 0 % of its files"},
		"one that holds nobody": {[]Quota{of("/var/lib/a", 16, 8192, 8000)}, nodeapi.Warning,
			"/var/lib/a is not held to its quota"},
		"on a disk that is smaller": {[]Quota{of("/var/lib/a", 16384, 8192, 8000)}, nodeapi.OK,
			"97 % of /var/lib/a is free (8000 of 8192 MiB)"},
		"one that nobody sees": {[]Quota{{Path: "/var/lib/a/b", Hidden: true}}, nodeapi.OK,
			"/var/lib/a/b lies in a directory that its role alone reads"},
		"one that cannot be asked": {[]Quota{{Path: "/var/lib/a", Is: Space{Problem: "it is not known: no"}}},
			nodeapi.Warning, "it is not known: no"},
	} {
		t.Run(name, func(t *testing.T) {
			is, reason := quotas(Input{Quotas: tt.quotas})
			require.Equal(t, tt.is, is)
			require.Equal(t, tt.reason, reason)
		})
	}
}
