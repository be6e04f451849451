package cephfs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestVolumesByTheirHandles(t *testing.T) {
	for _, tt := range []struct{ handle, filesystem, name string }{
		{"files/pvc-5d3c0d6e-0d7f-4a0c-9d27-0f2f4a8f2c11", "files", "pvc-5d3c0d6e-0d7f-4a0c-9d27-0f2f4a8f2c11"},
		{"my.files/data_1", "my.files", "data_1"},
		{"f/" + strings.Repeat("x", 128), "f", strings.Repeat("x", 128)},
	} {
		v, err := ParseVolume(tt.handle)
		require.NoError(t, err)
		require.Equal(t, Volume{tt.filesystem, tt.name}, v)
		require.Equal(t, tt.handle, v.String())
	}
	for _, bad := range []string{
		"", "/", "files", "files/", "/x", "files/a/b", "files/--force", "-f/x", "files/a b", "files/a\nb", "files/ä", "files/..", "../x", "files/.meta",
		"files/" + strings.Repeat("x", 129), strings.Repeat("x", 51) + "/x",
	} {
		_, err := ParseVolume(bad)
		require.Error(t, err, "%q", bad)
	}
}

func FuzzParseVolume(f *testing.F) {
	for _, s := range []string{"files/x", "files/--force", "a/b/c", "a/.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVolume(s)
		if err != nil {
			return
		}
		require.Equal(t, s, v.String())
		require.False(t, strings.HasPrefix(v.Name, "-") || strings.HasPrefix(v.Filesystem, "-") || strings.ContainsAny(s, " @\n\t\x00'\"\\$,="), "%q goes into command lines", s)
	})
}

// saidByCeph is what Reef prints.
const saidByCeph = `{"atime": "2026-11-21 23:40:55", "bytes_quota": 33554432, "bytes_used": 0, "flavor": 2, "mode": 16877,
 "path": "/volumes/kubernetes/v1/aed49b76-4416-439f-a064-37c7a142f730", "state": "complete", "type": "subvolume", "uid": 0}`

func TestWhatCephSaysOfAVolume(t *testing.T) {
	info, err := parseInfo([]byte(saidByCeph))
	require.NoError(t, err)
	require.Equal(t, Info{33554432, "/volumes/kubernetes/v1/aed49b76-4416-439f-a064-37c7a142f730"}, info)
	info, err = parseInfo([]byte(strings.Replace(saidByCeph, "33554432", `"infinite"`, 1)))
	require.NoError(t, err)
	require.Zero(t, info.Size)
	for name, tt := range map[string]struct{ data, want string }{
		"nothing":                  {"", "read what Ceph says"},
		"a list":                   {"[]", "read what Ceph says"},
		"one that is being copied": {strings.Replace(saidByCeph, "complete", "in-progress", 1), `it is "in-progress"`},
		"a quota of words":         {strings.Replace(saidByCeph, "33554432", `"much"`, 1), "its quota is"},
		"a quota below nothing":    {strings.Replace(saidByCeph, "33554432", `-1`, 1), "its quota is"},
		"a folder that climbs":     {strings.Replace(saidByCeph, "/v1/", `/../`, 1), "is no folder"},
		"a folder with options":    {strings.Replace(saidByCeph, "/v1/", `/v1,secret=x/`, 1), "is no folder"},
		"no folder":                {`{"bytes_quota": 1, "state": "complete"}`, "is no folder"},
	} {
		_, err := parseInfo([]byte(tt.data))
		require.ErrorContains(t, err, tt.want, name)
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add([]byte(saidByCeph))
	f.Add([]byte(`{"bytes_quota": "infinite", "path": "/x", "state": "complete"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := parseInfo(data)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, info.Size, int64(0))
		require.True(t, filepath.IsAbs(info.Path) && filepath.Clean(info.Path) == info.Path && !strings.ContainsAny(info.Path, " ,=\n\x00\\"), "%q", info.Path)
	})
}

func TestWhatTheExitStatusMeans(t *testing.T) {
	for status, want := range map[syscall.Errno]error{syscall.ENOENT: ErrNotFound, syscall.ENOTEMPTY: ErrSnapshots, syscall.EACCES: nil} {
		_, err := ending(t, "ceph", status).Info(context.Background(), Volume{"files", "x"})
		for _, is := range []error{ErrNotFound, ErrSnapshots} {
			require.Equal(t, is == want, errors.Is(err, is), "%v is %v", err, is)
		}
	}
}

// ending is a command that ends with an exit status.
func ending(t *testing.T, name string, status syscall.Errno) Command {
	program := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexit %d\n", int(status)), 0o755))
	return Command{Program: program}
}

func mounter(t *testing.T, key string) Mounter {
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(key), 0o600))
	monitors, err := ParseMonitors("10.77.0.31:3300/[fd77::31]:3300")
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("10.77.0.31:3300"), netip.MustParseAddrPort("[fd77::31]:3300")}, monitors)
	return Mounter{FSID: "0f5a0e3c-5a0f-4d6e-8b8e-2a2d8b1c9f11", Monitors: monitors, User: "kubernetes-cephfs.worker-01", KeyFile: file}
}

func TestWhatTheKernelIsTold(t *testing.T) {
	m := mounter(t, "AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw==\n")
	require.Equal(t, "kubernetes-cephfs.worker-01@0f5a0e3c-5a0f-4d6e-8b8e-2a2d8b1c9f11.files=/volumes/kubernetes/a", m.Source("files", "/volumes/kubernetes/a"))
	key, err := m.key()
	require.NoError(t, err)
	require.Equal(t, "mon_addr=10.77.0.31:3300/[fd77::31]:3300,secret=AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw==,ms_mode=secure,recover_session=clean", m.data(key))
	for name, bad := range map[string]string{"nothing": "", "an option": "AQ==,noshare", "two lines": "AQ==\nAQ==", "too much": strings.Repeat("A", 300)} {
		err := mounter(t, bad).Mount("files", "/x", t.TempDir(), nil)
		require.ErrorContains(t, err, "holds no key of Ceph", name)
	}
	require.ErrorContains(t, m.Mount("files", "/x/../y", t.TempDir(), nil), "is no folder")
	err = m.Mount("files", "/x", filepath.Join(t.TempDir(), "none"), nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "AQAA", "what is logged has no key")
}

func TestOptionsOfMounts(t *testing.T) {
	flags, err := Flags([]string{"noatime", "ro", "rw"})
	require.NoError(t, err)
	require.EqualValues(t, unix.MS_NOATIME|unix.MS_RDONLY, flags)
	flags, err = Flags(nil)
	require.NoError(t, err)
	require.Zero(t, flags)
	for _, bad := range []string{"", "secret=x", "ms_mode=legacy", "noatime,ro"} {
		_, err := Flags([]string{bad})
		require.ErrorContains(t, err, "is not provided; there are dirsync, noatime, ", bad)
	}
	for _, bad := range []string{"", "10.0.0.1", "10.0.0.1:3300,10.0.0.2:3300", "mon:3300", "10.0.0.1:3300/"} {
		_, err := ParseMonitors(bad)
		require.ErrorContains(t, err, "read the addresses of monitors", bad)
	}
}
