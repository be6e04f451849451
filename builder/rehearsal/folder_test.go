package rehearsal

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func hold(t *testing.T, f Folder, node string) *State {
	t.Helper()
	s, err := f.Hold(node)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// image is a file that stands for an image.
func image(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "spore.img")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Truncate(name, 1<<20))
	return name
}

func TestADiskStandsOnOneBuildOfTheImage(t *testing.T) {
	f, img := Folder(filepath.Join(t.TempDir(), "vm")), image(t)
	s := hold(t, f, "a")
	disk, err := s.BootDisk(t.Context(), img, "one")
	require.NoError(t, err)
	require.FileExists(t, disk)
	_, err = s.BootDisk(t.Context(), img, "one")
	require.NoError(t, err)
	_, err = s.BootDisk(t.Context(), img, "two")
	require.ErrorContains(t, err, "another build of the image; start afresh with --rm")
	_, err = s.EmptyDisk(t.Context())
	require.ErrorContains(t, err, "not empty")
	require.NoError(t, s.Forget())
	require.NoFileExists(t, disk)
	_, err = s.BootDisk(t.Context(), img, "two")
	require.NoError(t, err)
	info, err := os.Stat(s.Dir)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm(), "disks hold secrets")
}

func TestADiskThatWasInstalledOnStandsOnNoImage(t *testing.T) {
	f := Folder(t.TempDir())
	s := hold(t, f, "a")
	disk, err := s.EmptyDisk(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(disk, []byte("installed"), 0o600))
	for _, id := range []string{"one", "two"} {
		again, err := s.BootDisk(t.Context(), image(t), id)
		require.NoError(t, err)
		data, err := os.ReadFile(again)
		require.NoError(t, err)
		require.Equal(t, "installed", string(data))
	}
}

func TestAStickIsThatOfTheImage(t *testing.T) {
	s, img := hold(t, Folder(t.TempDir()), "a"), image(t)
	stick, err := s.Stick(t.Context(), img, "one")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(stick, []byte("written"), 0o600))
	_, err = s.Stick(t.Context(), img, "one")
	require.NoError(t, err)
	data, err := os.ReadFile(stick)
	require.NoError(t, err)
	require.Equal(t, "written", string(data))
	_, err = s.Stick(t.Context(), img, "two")
	require.NoError(t, err)
	data, err = os.ReadFile(stick)
	require.NoError(t, err)
	require.NotEqual(t, "written", string(data))
}

func TestWhatADiskHoldsIsKept(t *testing.T) {
	s := hold(t, Folder(t.TempDir()), "a")
	d := Disk{Name: "osd-A", Size: 1 << 30}
	made, err := s.Disk(t.Context(), d)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(made.Path, []byte("data"), 0o600))
	again, err := s.Disk(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, made, again)
	data, err := os.ReadFile(made.Path)
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
}

func TestOneProcessHasAMachine(t *testing.T) {
	f := Folder(t.TempDir())
	s := hold(t, f, "a")
	_, err := f.Hold("a")
	require.ErrorContains(t, err, "a runs already; end it with --kill a")
	hold(t, f, "b")
	require.NoError(t, s.Close())
	hold(t, f, "a")
	require.NoError(t, os.MkdirAll(f.Network(), 0o700))
	nodes, err := f.Nodes()
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, nodes)
	nodes, err = Folder("nothing").Nodes()
	require.NoError(t, err)
	require.Empty(t, nodes)
}

// process is one that stands for a machine.
func process(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	_, err = out.Read(make([]byte, 1)) // It is ready.
	require.NoError(t, err)
	go func() { _ = cmd.Wait(); close(ended) }()
	return cmd
}

func TestKillEndsTheMachineOfTheRecord(t *testing.T) {
	f := Folder(t.TempDir())
	s := hold(t, f, "a")
	cmd := process(t, "echo; exec sleep 1000")
	require.NoError(t, s.Record(Record{Node: "a", PID: cmd.Process.Pid}))
	go func() { // As the process that started it does.
		for r, _ := f.read("a"); r.running(); {
			time.Sleep(poll)
		}
		s.Close()
	}()
	killed, err := f.Kill(t.Context(), "a")
	require.NoError(t, err)
	require.True(t, killed)
	killed, err = f.Kill(t.Context(), "a")
	require.NoError(t, err)
	require.False(t, killed)
	killed, err = f.Kill(t.Context(), "b")
	require.NoError(t, err)
	require.False(t, killed, "there is none")
}

func TestKillEndsNoForeignProcess(t *testing.T) {
	f := Folder(t.TempDir())
	s := hold(t, f, "a")
	cmd := process(t, "echo; exec sleep 1000")
	require.NoError(t, s.Record(Record{Node: "a", PID: cmd.Process.Pid}))
	r, ok := f.read("a")
	require.True(t, ok)
	for name, change := range map[string]func(*Record){
		"that began at another time":             func(r *Record) { r.Started++ },
		"that began after a start of this host":  func(r *Record) { r.Boot = "another" },
		"that is every process of the user (-1)": func(r *Record) { r.PID = -1 },
		"that is the own group":                  func(r *Record) { r.PID = 0 },
		"that is init":                           func(r *Record) { r.PID = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			other := r
			change(&other)
			data, err := json.Marshal(other)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(s.Dir, recordName), data, 0o600))
			killed, err := f.Kill(t.Context(), "a")
			require.NoError(t, err)
			require.False(t, killed)
			require.True(t, r.running())
		})
	}
}

func TestKillWaitsNoLongerThanItsCaller(t *testing.T) {
	f := Folder(t.TempDir())
	s := hold(t, f, "a")
	cmd := process(t, "trap '' TERM; echo; while :; do sleep 0.1; done")
	require.NoError(t, s.Record(Record{Node: "a", PID: cmd.Process.Pid}))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := f.Kill(ctx, "a")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestStartOfAProcess(t *testing.T) {
	got, err := parseStarted("12 (qemu (x) y) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20")
	require.NoError(t, err)
	require.EqualValues(t, 4242, got)
	for _, bad := range []string{"", "12 (x) S 1", "12 (x) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20"} {
		_, err := parseStarted(bad)
		require.Error(t, err, bad)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"node":"a","pid":42,"started":7,"boot":"x"}`))
	f.Add([]byte(`{"pid":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, ok := parseRecord(data); ok {
			require.Greater(t, r.PID, 1)
			require.NotEmpty(t, r.Boot)
		}
	})
}
