package customize

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/accounts"
	"spore/builder/image"
	"spore/builder/lock"
	"spore/builder/media"
	"spore/builder/pcr"
	"spore/builder/pipeline"
	"spore/builder/secureboot"
	"spore/builder/uki"
	"spore/builder/updateset"
)

var formats = []string{"disk", "iso", "netboot"}

func TestTheResultIsWhatABuildWrites(t *testing.T) {
	before, after := small(load(t, example)), small(load(t, ttl(t)))
	after.Image.KernelArguments = []string{"quiet"}
	f := newFactory(t, before)
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			want := f.build(t, after, media.Keys{}, format, nil)
			name, original := f.build(t, before, media.Keys{}, format, nil), f.build(t, before, media.Keys{}, format, nil)

			other := filepath.Join(t.TempDir(), "other")
			r, err := run(Options{Image: name, Output: other, Config: after, Folder: os.DirFS(example)})
			require.NoError(t, err)
			require.Equal(t, other, r.Image)
			requireSame(t, want, other)
			requireSame(t, original, name)

			r, err = run(Options{Image: name, Config: after, Folder: os.DirFS(example)})
			require.NoError(t, err)
			require.True(t, r.Changed)
			require.Equal(t, f.root.Hash, r.RootHash)
			require.NotEqual(t, r.OldClusterHash, r.ClusterHash)
			requireSame(t, want, name)
			requireAlone(t, name)

			r, err = run(Options{Image: name, Config: before, Folder: os.DirFS(example)})
			require.NoError(t, err)
			require.True(t, r.Changed)
			requireSame(t, original, name)
		})
	}
}

// requireAlone makes sure that nothing is left beside an image.
func requireAlone(t *testing.T, name string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(name))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestAnImageWithoutAnIndexOfPiecesStaysSo(t *testing.T) {
	before, after := small(load(t, example)), small(load(t, ttl(t)))
	f := newFactory(t, before)
	f.withoutIndex(t)
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			name := f.build(t, before, media.Keys{}, format, nil)
			_, err := run(Options{Image: name, Config: after, Folder: os.DirFS(example)})
			require.NoError(t, err)
			requireSame(t, f.build(t, after, media.Keys{}, format, nil), name)
		})
	}
}

func TestAnImageThatHasTheConfigurationIsNotTouched(t *testing.T) {
	config := small(load(t, example))
	f := newFactory(t, config)
	for _, format := range formats {
		name := f.build(t, config, media.Keys{}, format, nil)
		was, err := os.Stat(name)
		require.NoError(t, err)
		r, err := run(Options{Image: name, Config: config, Folder: os.DirFS(example)})
		require.NoError(t, err)
		require.False(t, r.Changed, format)
		is, err := os.Stat(name)
		require.NoError(t, err)
		require.True(t, os.SameFile(was, is))
		require.Equal(t, was.ModTime(), is.ModTime())
	}
	// Another size of a slot is a change, though the UKI stays.
	name := f.build(t, config, media.Keys{}, "disk", nil)
	config.Image.Slots.Cluster = 2
	r, err := run(Options{Image: name, Config: config, Folder: os.DirFS(example)})
	require.NoError(t, err)
	require.True(t, r.Changed)
	requireSame(t, f.build(t, config, media.Keys{}, "disk", nil), name)
}

func TestWhatIsOnTheESPStays(t *testing.T) {
	before, after := small(load(t, example)), small(load(t, ttl(t)))
	f := newFactory(t, before)
	own := map[string][]byte{
		"/spore/node": []byte("edge-01"), "/spore/bundle": bytes.Repeat([]byte("sealed"), 999),
		"/loader/random-seed": []byte("0123456789abcdef0123456789abcdef"),
	}
	for _, format := range []string{"disk", "iso"} {
		name := f.build(t, before, media.Keys{}, format, own)
		_, err := run(Options{Image: name, Config: after, Folder: os.DirFS(example)})
		require.NoError(t, err)
		requireSame(t, f.build(t, after, media.Keys{}, format, own), name)
	}
}

func TestALinkStaysALink(t *testing.T) {
	before, after := small(load(t, example)), small(load(t, ttl(t)))
	f := newFactory(t, before)
	name := f.build(t, before, media.Keys{}, "disk", nil)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(name, link))
	_, err := run(Options{Image: link, Config: after, Folder: os.DirFS(example)})
	require.NoError(t, err)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	requireSame(t, f.build(t, after, media.Keys{}, "disk", nil), name)
}

func TestAWholeOutputFolderIsChanged(t *testing.T) {
	before, after := small(load(t, example)), small(load(t, ttl(t)))
	after.Cluster.Name = "works"
	f := newFactory(t, before)
	lay := func(config bool) string {
		c := before
		if config {
			c = after
		}
		dir := t.TempDir()
		for format, base := range map[string]string{"disk": pipeline.DiskName, "iso": pipeline.ISOName, "netboot": pipeline.NetbootName} {
			require.NoError(t, os.Rename(f.build(t, c, media.Keys{}, format, nil), filepath.Join(dir, base)))
		}
		m, err := media.Make(media.Options{Root: f.root, Config: c, Temp: t.TempDir()})
		require.NoError(t, err)
		defer m.Close()
		require.NoError(t, os.WriteFile(filepath.Join(dir, pipeline.UKIName), m.UKI, 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, pipeline.ManifestName), []byte(`{"format":1,"kernel":"6.12"}`), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, lock.Name), []byte("format: 1\n"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, accounts.LockedFile), []byte("users: {a: 200}\n"), 0o644))
		s := &Set{dir: dir, options: Options{Config: c}, Changes: []*Change{{media: m}}}
		require.NoError(t, s.writeRest())
		set, err := updateset.Of(updateset.Parts{Root: f.root.Squashfs, Tree: f.root.Verity, UKI: m.UKI, ClusterFile: m.ClusterFile, Loader: m.Loader})
		require.NoError(t, err)
		defer set.Close()
		require.NoError(t, set.WriteFolder(context.Background(), filepath.Join(dir, pipeline.UpdateName)))
		return dir
	}
	old, want := lay(false), lay(true)
	provenance := filepath.Join(old, pipeline.ProvenanceName)
	require.NoError(t, os.WriteFile(provenance, []byte("{}"), 0o644))
	s, err := PlanAll(Options{Image: old, Config: after, Folder: os.DirFS(example)})
	require.NoError(t, err)
	defer s.Close()
	require.Contains(t, strings.Join(s.Changes[0].Notes, "\n"), provenance+" is removed")
	results, err := s.Write(context.Background())
	require.NoError(t, err)
	require.Len(t, results, 3)
	requireSame(t, want, old)
	require.NoFileExists(t, provenance)

	// Where nothing changes, and where another file is written, it stays true.
	require.NoError(t, os.WriteFile(provenance, []byte("{}"), 0o644))
	for _, o := range []Options{
		{Image: old, Config: after, Folder: os.DirFS(example)},
		{Image: filepath.Join(old, pipeline.DiskName), Output: filepath.Join(t.TempDir(), "other.img"), Config: before, Folder: os.DirFS(example)},
	} {
		s, err := PlanAll(o)
		require.NoError(t, err)
		_, err = s.Write(context.Background())
		require.NoError(t, err)
		s.Close()
		require.FileExists(t, provenance)
	}
	require.NoError(t, os.Remove(provenance))
	sbom, err := os.ReadFile(filepath.Join(old, pipeline.SBOMName))
	require.NoError(t, err)
	require.Contains(t, string(sbom), `"name": "works"`)
	require.FileExists(t, filepath.Join(old, pipeline.SPDXName))

	out := filepath.Join(t.TempDir(), "new", "out")
	s, err = PlanAll(Options{Image: old, Output: out, Config: before, Folder: os.DirFS(example)})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Write(context.Background())
	require.NoError(t, err)
	requireSame(t, lay(false), out)
	requireSame(t, want, old)

	// Two builds in one folder are not one.
	more, _ := loadAny(folder(t, example, [3]string{"cluster.yaml", "services: [mqtt, dns]", "services: [mqtt, dns, ceph]"}))
	f.makeRoot(t, more)
	require.NoError(t, os.Rename(f.build(t, before, media.Keys{}, "iso", nil), filepath.Join(old, pipeline.ISOName)))
	_, err = PlanAll(Options{Image: old, Config: before, Folder: os.DirFS(example)})
	require.ErrorContains(t, err, "have different roots, so they are of different builds")
	_, err = PlanAll(Options{Image: t.TempDir(), Config: before, Folder: os.DirFS(example)})
	require.ErrorContains(t, err, "has no image: it is neither a folder for network boot nor one with spore.img, spore.iso, netboot")
	_, err = PlanAll(Options{Image: filepath.Join(t.TempDir(), "none"), Config: before, Folder: os.DirFS(example)})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWhatTheImageCannotBecomeIsRefusedAndNothingIsWritten(t *testing.T) {
	config := small(load(t, example))
	f := newFactory(t, config)
	name := f.build(t, config, media.Keys{}, "disk", nil)
	was := content(t, name)
	for title, tc := range map[string]struct {
		edits [][3]string
		want  string
	}{
		"another service": {
			[][3]string{{"cluster.yaml", "services: [mqtt, dns]", "services: [mqtt, dns, kafka]"}},
			"cluster.yaml:27:23: error: service kafka needs programs kafka, kafka-bootstrap, kafka-disks and package openjdk-21-jre-headless, which the image does not contain",
		},
		"another package": {
			[][3]string{{"image.yaml", "suite: trixie", "packages: [tmux]"}}, "image.yaml:4:12: error: package tmux is not in the image",
		},
		"another kernel": {
			[][3]string{{"image.yaml", "suite: trixie", "kernel: cloud"}}, "image.yaml:4:9: error: the kernel cloud needs package linux-image-cloud-amd64",
		},
		"another cluster": {
			[][3]string{{"cluster.yaml", "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", "00000000-0000-4000-8000-00000000000a"}},
			"the id is 00000000-0000-4000-8000-00000000000a, and the image is of the cluster plant with the id 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11, whose machines would refuse their own state; say --new-cluster if that is meant",
		},
	} {
		t.Run(title, func(t *testing.T) {
			dir := folder(t, example, tc.edits...)
			c, _ := loadAny(dir)
			_, err := run(Options{Image: name, Config: small(c), Folder: os.DirFS(dir)})
			var refused *Refused
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Report.String(), tc.want)
			require.ErrorContains(t, err, "nothing was changed")
		})
	}
	require.Equal(t, was, content(t, name))
	requireAlone(t, name)
}

func TestAnotherClusterIsTakenWhenItIsMeant(t *testing.T) {
	before := small(load(t, example))
	dir := folder(t, example, [3]string{"cluster.yaml", "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", "00000000-0000-4000-8000-00000000000a"})
	after := small(load(t, dir))
	f := newFactory(t, before)
	name := f.build(t, before, media.Keys{}, "disk", nil)
	_, err := run(Options{Image: name, Config: after, Folder: os.DirFS(dir), NewCluster: true})
	require.NoError(t, err)
	requireSame(t, f.build(t, after, media.Keys{}, "disk", nil), name)
}

func TestWhatTheUserShouldKnow(t *testing.T) {
	before := small(load(t, example))
	before.Public.SigningKeys = []string{"AAAA"}
	f := newFactory(t, before)
	name := f.build(t, before, media.Keys{}, "disk", nil)
	dir := folder(t, example, [3]string{"cluster.yaml", "services: [mqtt, dns]", "services: [dns]"})
	c, _ := loadAny(dir)
	change, err := Plan(Options{Image: name, Config: small(c), Folder: os.DirFS(dir)})
	require.NoError(t, err)
	defer change.Close()
	require.Len(t, change.Notes, 2)
	require.Contains(t, change.Notes[0], "the image carries mosquitto, which this configuration does not need")
	require.Contains(t, change.Notes[1], "Name the folder of keys with --pki")
}

func TestWhatIsNoImage(t *testing.T) {
	config := small(load(t, example))
	f := newFactory(t, config)
	damaged := func(format string, change func(name string)) string {
		name := f.build(t, config, media.Keys{}, format, nil)
		change(name)
		return name
	}
	write := func(data string, off int64, inside ...string) func(string) {
		return func(name string) {
			file, err := os.OpenFile(filepath.Join(append([]string{name}, inside...)...), os.O_RDWR, 0)
			require.NoError(t, err)
			defer file.Close()
			_, err = file.WriteAt([]byte(data), off)
			require.NoError(t, err)
		}
	}
	remove := func(inside string) func(string) {
		return func(name string) { require.NoError(t, os.RemoveAll(filepath.Join(name, inside))) }
	}
	const mib = 1 << 20
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, bytes.Repeat([]byte("text"), 9999), 0o644))
	for title, tc := range map[string]struct{ name, err string }{
		"a text":                     {text, "it has no partition table"},
		"a device":                   {"/dev/null", "is a device, and an interrupted change would leave it half: customize the image in a file, and write that with `spore flash`"},
		"an empty folder":            {t.TempDir(), "it has no spore.efi, so it is not a folder for network boot"},
		"a file that is not there":   {filepath.Join(t.TempDir(), "none"), "no such file or directory"},
		"a root that is not there":   {damaged("disk", write("XXXX", 65*mib)), "its UKI and its partitions do not belong together: root-a: it holds no squashfs"},
		"an ESP with two UKIs":       {f.build(t, config, media.Keys{}, "disk", map[string][]byte{"/EFI/Linux/other.efi": f.root.Kernel.(uki.Bytes)}), "it has more than one unified kernel image"},
		"another kernel":             {damaged("netboot", write("YZ", 0, "vmlinuz")), "its kernel differs from the one in its UKI"},
		"a folder without a root":    {damaged("netboot", remove("root.squashfs")), "read the manifest: open"},
		"a folder without a kernel":  {damaged("netboot", remove("vmlinuz")), "no such file"},
		"a folder with another root": {damaged("netboot", write("XXXX", 0, "root.squashfs")), "root.squashfs is not a squashfs"},
		"a folder with another UKI":  {damaged("netboot", write("XX", 0, "spore.efi")), "not a PE file"},
		"a folder without iPXE":      {damaged("netboot", remove("ipxe")), "ipxe: no such file"},
		"an ISO without boot code": {damaged("iso", func(name string) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			write("XXXX", int64(bytes.Index(data, f.bios.ISOLinux[64:128])))(name)
		}), "isolinux.bin of 4808 bytes cannot be started from a disk"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := run(Options{Image: tc.name, Config: config, Folder: os.DirFS(example)})
			require.ErrorContains(t, err, tc.err)
		})
	}
}

func TestTheDiskOfAMachineIsRefused(t *testing.T) {
	for _, p := range []string{"root-b", "spore-state"} {
		o := &original{info: &image.Info{Partitions: []image.Partition{{Name: "esp"}, {Name: "root-a"}, {Name: p}}}}
		require.ErrorContains(t, o.checkLayout(), "it has a partition "+p+", so it is the disk of a machine and not an image")
	}
}

func TestWhoeverInterruptsHasTheOldImageOrTheNew(t *testing.T) {
	before, after := small(load(t, example)), small(load(t, ttl(t)))
	f := newFactory(t, before)
	name := f.build(t, before, media.Keys{}, "disk", nil)
	was := content(t, name)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c, err := Plan(Options{Image: name, Config: after, Folder: os.DirFS(example)})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, was, content(t, name))
	requireAlone(t, name)

	// What a killed run left is in nobody's way.
	left := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".customize")
	require.NoError(t, os.MkdirAll(filepath.Join(left, "spore.disk", "x"), 0o700))
	_, err = c.Write(context.Background())
	require.NoError(t, err)
	requireSame(t, f.build(t, after, media.Keys{}, "disk", nil), name)
	requireAlone(t, name)
}

// TestKilled is what TestAKillLeavesAWholeImage kills: it changes an image for ever.
func TestKilled(t *testing.T) {
	name, configs := os.Getenv("SPORE_TEST_CUSTOMIZE"), filepath.SplitList(os.Getenv("SPORE_TEST_CONFIGS"))
	if name == "" {
		t.Skip("elsewhere: TestAKillLeavesAWholeImage runs it as a process, which it kills")
	}
	for i := 0; ; i++ {
		dir := configs[i%len(configs)]
		_, err := run(Options{Image: name, Config: small(load(t, dir)), Folder: os.DirFS(dir)})
		require.NoError(t, err)
	}
}

func TestAKillLeavesAWholeImage(t *testing.T) {
	other := ttl(t)
	before, after := small(load(t, example)), small(load(t, other))
	f := newFactory(t, before)
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			name := f.build(t, before, media.Keys{}, format, nil)
			old, fresh := content(t, name), content(t, f.build(t, after, media.Keys{}, format, nil))
			seen, temp := map[bool]int{}, t.TempDir()
			for i := range 6 {
				cmd := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
				cmd.Env = append(os.Environ(), "TMPDIR="+temp, "SPORE_TEST_CUSTOMIZE="+name, "SPORE_TEST_CONFIGS="+other+string(filepath.ListSeparator)+example)
				require.NoError(t, cmd.Start())
				time.Sleep(time.Duration(200+37*i) * time.Millisecond)
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait()
				now := content(t, name)
				isOld := equal(now, old)
				require.True(t, isOld || equal(now, fresh), "kill %d left neither the old image nor the new one", i)
				seen[isOld]++
			}
			t.Logf("old %d times, new %d times", seen[true], seen[false])
			_, err := run(Options{Image: name, Config: after, Folder: os.DirFS(example)})
			require.NoError(t, err)
			require.True(t, equal(content(t, name), fresh))
		})
	}
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if a[name] != b[name] {
			return false
		}
	}
	return true
}

func TestTwoAtOnceDoNotMeet(t *testing.T) {
	before, after := small(load(t, example)), small(load(t, ttl(t)))
	f := newFactory(t, before)
	name := f.build(t, before, media.Keys{}, "disk", nil)
	w, err := openWork(name)
	require.NoError(t, err)
	_, err = run(Options{Image: name, Config: after, Folder: os.DirFS(example)})
	require.ErrorContains(t, err, "another spore customize writes "+name)
	require.NoError(t, w.remove())

	// A build that replaced the image meanwhile is not undone.
	c, err := Plan(Options{Image: name, Config: after, Folder: os.DirFS(example)})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, os.Rename(f.build(t, before, media.Keys{}, "disk", nil), name))
	_, err = c.Write(context.Background())
	require.ErrorIs(t, err, errReplaced)
	requireAlone(t, name)
}

func TestASignedImageIsSignedAnew(t *testing.T) {
	before, after := small(load(t, example)), small(load(t, ttl(t)))
	f := newFactory(t, before)
	made, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "plant", Now: time.Unix(buildTime, 0)})
	require.NoError(t, err)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	register, err := pcr.NewSigner(key)
	require.NoError(t, err)
	enroll := &image.Enrolment{Mode: "force", Keys: map[string][]byte{}}
	for _, v := range made.Variables {
		enroll.Keys[v.File] = v.Auth
	}
	keys := media.Keys{Boot: made.DB, PCR: register, Enroll: enroll}
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			name := f.build(t, before, keys, format, nil)
			was := content(t, name)
			for _, tc := range []struct {
				keys media.Keys
				err  string
			}{
				{media.Keys{}, "the image is signed for Secure Boot, and its UKI must be signed again: name the key with --secure-boot-key and --secure-boot-cert"},
				{media.Keys{Boot: made.DB}, "name the key with --pcr-key"},
			} {
				_, err := run(Options{Image: name, Config: after, Folder: os.DirFS(example), Keys: tc.keys})
				require.ErrorContains(t, err, tc.err)
			}
			if format != "netboot" {
				_, err = run(Options{Image: name, Config: after, Folder: os.DirFS(example), Keys: media.Keys{Boot: made.KEK, PCR: register}})
				require.ErrorContains(t, err, "a machine that enrols them would refuse the new image")
			}
			require.Equal(t, was, content(t, name))

			// The keys to enrol are those of the medium.
			_, err = run(Options{Image: name, Config: after, Folder: os.DirFS(example), Keys: media.Keys{Boot: made.DB, PCR: register}})
			require.NoError(t, err)
			requireSame(t, f.build(t, after, keys, format, nil), name)
		})
	}
	// One that is not signed is signed when that is said.
	name := f.build(t, before, media.Keys{}, "disk", nil)
	_, err = run(Options{Image: name, Config: after, Folder: os.DirFS(example), Keys: keys, TrustUnsigned: true})
	require.NoError(t, err)
	requireSame(t, f.build(t, after, keys, "disk", nil), name)
}

func TestOnlyAnImageThatTheCertificateSignedIsSignedAgain(t *testing.T) {
	before, after := small(load(t, example)), small(load(t, ttl(t)))
	f := newFactory(t, before)
	ours, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "plant", Now: time.Unix(buildTime, 0)})
	require.NoError(t, err)
	theirs, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "somebody", Now: time.Unix(buildTime, 0)})
	require.NoError(t, err)
	want, other := media.Keys{Boot: ours.DB}, media.Keys{Boot: theirs.DB}
	for _, format := range formats {
		for title, tc := range map[string]struct {
			from media.Keys
			err  string
		}{
			"not signed":                    {media.Keys{}, "it is not signed"},
			"signed by somebody":            {other, `it is signed by "CN=somebody Secure Boot Signature Database Key" (SHA-256 `},
			"signed by another key of ours": {media.Keys{Boot: ours.KEK}, `it is signed by "CN=plant Secure Boot Key Exchange Key"`},
			"signed by us":                  {want, ""},
		} {
			t.Run(format+" "+title, func(t *testing.T) {
				t.Parallel()
				name := f.build(t, before, tc.from, format, nil)
				was := content(t, name)
				o := Options{Image: name, Config: after, Folder: os.DirFS(example), Keys: want}
				if tc.err != "" {
					_, err := run(o)
					require.ErrorContains(t, err, "the UKI of "+name+` is not signed by the certificate that is given, "CN=plant Secure Boot Signature Database Key"`)
					require.ErrorContains(t, err, tc.err)
					require.ErrorContains(t, err, "say --trust-unsigned")
					_, err = run(Options{Image: name, Output: filepath.Join(t.TempDir(), "other"), Config: after, Folder: os.DirFS(example), Keys: want})
					require.ErrorContains(t, err, tc.err)
					require.Equal(t, was, content(t, name))
					requireAlone(t, name)
					o.TrustUnsigned = true
				}
				_, err := run(o)
				require.NoError(t, err)
				requireSame(t, f.build(t, after, want, format, nil), name)
			})
		}
	}
}

// One program of a signed image that is exchanged is enough.
func TestEachProgramThatWillBeSignedWasSigned(t *testing.T) {
	config, after := small(load(t, example)), small(load(t, ttl(t)))
	f := newFactory(t, config)
	made, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "plant", Now: time.Unix(buildTime, 0)})
	require.NoError(t, err)
	keys := media.Keys{Boot: made.DB}
	evil := program(bytes.Repeat([]byte("evil"), 500), 0x3000)

	for format, tc := range map[string]struct {
		change func(name string)
		want   string
	}{
		"disk": {func(name string) {
			loader, err := made.DB.SignPE(f.root.Loader)
			require.NoError(t, err)
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			bad := append(bytes.Clone(evil), make([]byte, len(loader)-len(evil))...)
			require.Equal(t, 2, bytes.Count(data, loader), "at the removable path and at its own")
			require.NoError(t, os.WriteFile(name, bytes.ReplaceAll(data, loader, bad), 0o644))
		}, "the boot loader of "},
		"netboot": {func(name string) {
			require.NoError(t, os.WriteFile(filepath.Join(name, media.NetbootLoaders, "snponly.efi"), evil, 0o644))
		}, "iPXE (snponly.efi) of "},
	} {
		t.Run(format, func(t *testing.T) {
			name := f.build(t, config, keys, format, nil)
			tc.change(name)
			_, err := run(Options{Image: name, Config: after, Folder: os.DirFS(example), Keys: keys})
			require.ErrorContains(t, err, tc.want+name+" is not signed by the certificate that is given")
		})
	}
}
