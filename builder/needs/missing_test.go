package needs

import (
	"bytes"
	"maps"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/builder/manifest"
	"spore/builder/oci"
	"spore/builder/payload"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/services"
)

// load reads a configuration of one service list and image.yaml; what Validate would say of it does not matter here.
func load(t *testing.T, services, image string, more fstest.MapFS) (*cluster.Config, fstest.MapFS) {
	t.Helper()
	folder := fstest.MapFS{
		"cluster.yaml": {Data: []byte("name: plant\nservices: [" + services + "]\n")},
		"image.yaml":   {Data: []byte(image)},
	}
	for name, f := range more {
		folder[name] = f
	}
	c, _ := cluster.Load(folder)
	return c, folder
}

// rootOf is the manifest of a root that was built for a configuration.
func rootOf(t *testing.T, c *cluster.Config) *manifest.Manifest {
	t.Helper()
	m := &manifest.Manifest{Suite: c.Image.Suite, Kernel: "6.12.1-amd64", ConfigFormat: services.Format()}
	for _, p := range Programs(c) {
		m.Programs = append(m.Programs, p.Name)
	}
	var err error
	m.Requested, err = Packages(c)
	require.NoError(t, err)
	m.Packages = []manifest.Package{{Name: "libc6"}, {Name: "htop"}}
	names, _ := ContainerImages(c)
	for _, name := range names {
		m.Images = append(m.Images, manifest.Image{From: name, Names: []string{"spore.local/hello:1"}, Digest: "sha256:0"})
	}
	return m
}

func archive(t *testing.T, program string) *fstest.MapFile {
	t.Helper()
	var b bytes.Buffer
	_, err := oci.Program(&b, []byte(program), oci.ProgramOptions{Image: "spore.local/hello:1", Name: "hello"})
	require.NoError(t, err)
	return &fstest.MapFile{Data: b.Bytes()}
}

const reference = "registry.example/app@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestWhatARootLacksIsNamedWithTheEntryThatAsksForIt(t *testing.T) {
	built, _ := load(t, "dns, mqtt", "microcode: false\npackages: [awk]\n", nil)
	for name, tc := range map[string]struct {
		services, image string
		more            fstest.MapFS
		change          func(*manifest.Manifest)
		want            []string
	}{
		"the same":                        {services: "dns, mqtt", image: "packages: [awk]"},
		"less":                            {services: "dns"},
		"a package that another brought":  {services: "dns", image: "packages: [htop]"},
		"a package that packages provide": {services: "dns", image: "packages: [awk]"},
		"words of the command line":       {services: "dns", image: "kernelArguments: [quiet]"},
		"a service":                       {services: "dns, kafka", want: []string{"cluster.yaml:2:17: error: service kafka needs programs kafka, kafka-bootstrap, kafka-disks and package openjdk-21-jre-headless, which the image does not contain"}},
		"a package of image.yaml":         {services: "dns", image: "packages: [awk, tmux]", want: []string{"image.yaml:1:17: error: package tmux is not in the image"}},
		"microcode":                       {services: "dns", image: "microcode: true", want: []string{"image.yaml:1:12: error: microcode needs packages amd64-microcode, intel-microcode, which the image does not contain"}},
		"what rules left out":             {services: "dns", image: "keep: [man, sound]\nkeepPaths: [/usr/share/zsh]", want: []string{"image.yaml:1:13: error: the image was built without sound", "image.yaml:2:13: error: the image was built without /usr/share/zsh"}, change: func(m *manifest.Manifest) { m.Keep = []string{"man"} }},
		"decisions about scripts": {
			services: "dns",
			image: "scripts:\n  a1: {skip: [preinst, postinst]}\n  b1: {skip: [postinst]}\n  c1: {groups: [c]}\n" +
				"debconf:\n  a1: {a/x: \"1\", a/y: \"2\", a/z: \"\"}",
			change: func(m *manifest.Manifest) {
				m.Scripts = map[string]spec.ScriptDecision{
					"a1": {Skip: []string{"postinst", "preinst"}}, "b1": {Skip: []string{"preinst"}}, "d1": {Skip: []string{"preinst"}},
				}
				m.Debconf = map[string]map[string]string{"a1": {"a/x": "1", "a/y": "1"}}
			},
			want: []string{
				"image.yaml:3:7: error: the image was built without this decision about scripts of b1",
				"image.yaml:4:7: error: the image was built without this decision about scripts of c1",
				"image.yaml:6:23: error: the image was built without this answer to a/y",
				"image.yaml:6:33: error: the image was built without this answer to a/z",
			},
		},
		"another kernel":                     {services: "dns", image: "kernel: cloud", want: []string{"image.yaml:1:9: error: the kernel cloud needs package linux-image-cloud-amd64, which the image does not contain; it has kernel 6.12.1-amd64"}},
		"another suite":                      {services: "dns", image: "suite: forky", want: []string{"image.yaml:1:8: error: asks for the suite forky, and the image was built from trixie"}},
		"an agent that reads something else": {services: "dns", change: func(m *manifest.Manifest) { m.ConfigFormat = "0123456789abcdef" }, want: []string{`cluster.yaml:1:1: error: the agent in the image reads the configuration in form "0123456789abcdef", and this spore writes form "` + services.Format() + `": use the spore that built the image, or build the image again`}},
		"programs that one service has where another is enabled": {
			services: "dns, mqtt", change: func(m *manifest.Manifest) { m.Programs = []string{"coredns"} },
			want: []string{"cluster.yaml:2:17: error: service mqtt needs program mosquitto, which the image does not contain"},
		},
		"encrypted state": {
			more: fstest.MapFS{"cluster.yaml": {Data: []byte("name: plant\nservices: [dns]\nstate: {encrypt: tpm2}\n")}},
			want: []string{"cluster.yaml:3:18: error: encrypted state needs packages cryptsetup-bin, systemd-cryptsetup, which the image does not contain"},
		},
		"encrypted state of one node": {
			services: "dns", more: fstest.MapFS{"nodes/a.yaml": {Data: []byte("node: a\nstate: {encrypt: passphrase}\n")}},
			want: []string{"nodes/a.yaml:2:18: error: encrypted state needs packages cryptsetup-bin, systemd-cryptsetup, which the image does not contain"},
		},
		"several": {services: "kafka", image: "packages: [tmux]\nsuite: forky", want: []string{
			"image.yaml:2:8: error: asks for the suite forky, and the image was built from trixie",
			"image.yaml:1:12: error: package tmux is not in the image",
			"cluster.yaml:2:12: error: service kafka needs programs kafka, kafka-bootstrap, kafka-disks and package openjdk-21-jre-headless, which the image does not contain",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, folder := load(t, tc.services, tc.image, tc.more)
			root := rootOf(t, built)
			if tc.change != nil {
				tc.change(root)
			}
			report, err := Missing(c, root, folder)
			require.NoError(t, err)
			var got []string
			for _, p := range report {
				got = append(got, p.String())
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestContainerImagesAreComparedByTheirContent(t *testing.T) {
	hello := archive(t, "hello")
	held, err := oci.Peek(bytes.NewReader(hello.Data), int64(len(hello.Data)))
	require.NoError(t, err)
	settings := func(images string) fstest.MapFS {
		return fstest.MapFS{
			"services/kubernetes.yaml": {Data: []byte("images: [" + images + "]\n")},
			"images/hello.tar":         hello, "images/renamed.tar": hello, "images/changed.tar": archive(t, "other"), "images/bad.tar": {Data: []byte("no tar")},
		}
	}
	built, _ := load(t, "kubernetes", "", settings("images/hello.tar, "+reference))
	root := rootOf(t, built)
	root.Images[0].Digest = held.Digest
	for images, want := range map[string]string{
		"images/hello.tar":   "",
		reference:            "",
		"images/renamed.tar": "",
		"images/changed.tar": "services/kubernetes.yaml:1:10: error: the archive images/changed.tar holds spore.local/hello:1 with the digest sha256:",
		reference[:70] + "b": "services/kubernetes.yaml:1:10: error: container image registry.example/app@sha256:",
	} {
		c, folder := load(t, "kubernetes", "", settings(images))
		report, err := Missing(c, root, folder)
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, report, images)
			continue
		}
		require.Len(t, report, 1, images)
		require.Contains(t, report[0].String(), want)
	}
	c, folder := load(t, "kubernetes", "", settings("images/bad.tar"))
	_, err = Missing(c, root, folder)
	require.ErrorContains(t, err, "container image images/bad.tar: it is not a tar")
	c, _ = load(t, "kubernetes", "", settings("images/hello.tar"))
	_, err = Missing(c, root, fstest.MapFS{})
	require.ErrorContains(t, err, "container image images/hello.tar: open images/hello.tar")
}

func TestVolumesOfPodsBelongToTheServiceThatTheImageDoesNotKnow(t *testing.T) {
	built, _ := load(t, "kubernetes", "", fstest.MapFS{"services/kubernetes.yaml": {Data: []byte("images: []")}})
	c, folder := load(t, "kubernetes, ceph", "", fstest.MapFS{"services/kubernetes.yaml": {Data: []byte("images: []")}})
	report, err := Missing(c, rootOf(t, built), folder)
	require.NoError(t, err)
	require.Len(t, report, 1)
	require.Contains(t, report[0].String(), "cluster.yaml:2:24: error: service ceph needs programs ceph-bootstrap,")
	require.Contains(t, report[0].Message, "rbd-node")
}

func TestWhatNobodyNeedsIsNamed(t *testing.T) {
	built, _ := load(t, "dns, mqtt", "", nil)
	c, _ := load(t, "dns", "", nil)
	require.Equal(t, []string{"mosquitto"}, Unneeded(c, rootOf(t, built)))
	require.Empty(t, Unneeded(built, rootOf(t, built)))
}

func TestProgramsOfTheUsersOwnAreComparedByWhatTheyAreMadeOf(t *testing.T) {
	gateway := fstest.MapFS{
		"programs/gateway.yaml":    {Data: []byte("folder: ./gateway\n")},
		"programs/gateway/go.mod":  {Data: []byte("module example.test/gateway\n")},
		"programs/gateway/main.go": {Data: []byte("package main\n")},
	}
	built, folder := load(t, "dns", "", gateway)
	root := rootOf(t, built)
	missing := func(c *cluster.Config, folder fstest.MapFS) []string {
		report, err := Missing(c, root, folder)
		require.NoError(t, err)
		var out []string
		for _, p := range report {
			out = append(out, p.String())
		}
		return out
	}
	require.Equal(t, []string{"programs/gateway.yaml:1:1: error: the program is not in the image; build the image again"}, missing(built, folder))
	sum, err := payload.MadeOf(folder, built.Programs[0])
	require.NoError(t, err)
	root.Payloads = []manifest.Payload{{Name: "programs/gateway", Configured: "programs/gateway.yaml", MadeOf: sum}}
	require.Empty(t, missing(built, folder))
	require.Empty(t, Unneeded(built, root))

	for name, text := range map[string]string{"programs/gateway/main.go": "package main // changed\n", "programs/gateway.yaml": "folder: ./gateway\nmode: \"0750\"\n"} {
		changed := maps.Clone(gateway)
		changed[name] = &fstest.MapFile{Data: []byte(text)}
		c, folder := load(t, "dns", "", changed)
		require.Equal(t, []string{"programs/gateway.yaml:1:1: error: the image has this program as it was before a change; build the image again"},
			missing(c, folder), name)
	}
	without, _ := load(t, "dns", "", nil)
	require.Equal(t, []string{"programs/gateway"}, Unneeded(without, root))
}
