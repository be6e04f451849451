package offline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/manifest"
	"spore/builder/rootfs"
	"spore/builder/rootfs/rootfstest"
	"spore/builder/tree"
	"spore/builder/uki"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kubernetes"
)

func linked(t *testing.T, files map[string]string) rootfs.Filesystem {
	t.Helper()
	tr := tree.New()
	for p, text := range files {
		mode := uint32(0o644)
		if len(text) > 2 && text[:2] == "#!" || text == "ELF" {
			mode = 0o755
		}
		require.NoError(t, tr.WriteFile(p, []byte(text), mode, ""))
	}
	return rootfstest.Linked(t, tr)
}

// sample is an image in which nothing is to be found.
func sample() map[string]string {
	return map[string]string{
		"/etc/systemd/system/a.service": "[Unit]\nDocumentation=https://example.test/\nAfter=apt-daily.service\n# curl x\n[Service]\nExecStart=/usr/bin/a --git-dir x\n",
		"/etc/systemd/system/a.timer":   "[Timer]\nOnCalendar=daily\n",
		"/usr/bin/a":                    "#!/bin/sh\n# wget nothing\necho \"report it, curl says, to <https://example.test>\"\n",
		"/usr/bin/b":                    "ELF", "/usr/bin/openssl": "ELF",
		"/usr/share/spore/images/images.json": `{"images":[{"file":"pause.tar","names":["` + kubernetes.PauseImage + `"],"digest":"sha256:1"}]}`,
		"/usr/share/spore/images/pause.tar":   "tar",
		"/usr/share/pods/a.yaml":              "containers:\n  - image: " + kubernetes.PauseImage + "\n    imagePullPolicy: IfNotPresent\n",
	}
}

func look(t *testing.T, change func(root, cluster map[string]string), cmdline string) *Report {
	t.Helper()
	config, err := json.Marshal(facts.Cluster{Network: spec.Network{NTPServers: []string{"time.example.test"}}})
	require.NoError(t, err)
	root, cluster := sample(), map[string]string{"/" + facts.ClusterFile: string(config)}
	change(root, cluster)
	i := &rootfs.Image{Root: linked(t, root), Cluster: linked(t, cluster), UKI: &uki.Info{Cmdline: cmdline}, Manifest: &manifest.Manifest{Programs: []string{kubernetesImages}}}
	r, err := Look(i)
	require.NoError(t, err)
	return r
}

func TestNothingIsFoundWhereNothingFetches(t *testing.T) {
	r := look(t, func(_, _ map[string]string) {}, "ro quiet")
	require.Zero(t, r.Findings(), "%+v", r.Checks)
	for _, c := range r.Checks {
		require.NotEmpty(t, c.Evidence, c.Name)
	}
	require.Equal(t, []string{"time.example.test: time (NTP)"}, r.Peers)
	require.Len(t, r.Able, 1)
}

func TestWhatFetchesIsFound(t *testing.T) {
	for _, tt := range []struct{ name, path, text, why string }{
		{"a program", "/opt/x/wget", "ELF", "a program that fetches"},
		{"a package manager's sources", "/etc/apt/sources.list", "deb x", "what to fetch"},
		{"cron", "/etc/cron.daily/x", "x", "what to fetch"},
		{"a unit with a URL", "/etc/systemd/system/x.service", "[Service]\nExecStart=/usr/bin/b --from HTTPS://example.test/x\n", "names a place on a network"},
		{"a unit that runs curl", "/usr/lib/systemd/system/x.service", "[Service]\nExecStart=-/usr/bin/curl -O x\n", "runs curl"},
		{"a unit that runs it in a shell", "/usr/lib/systemd/system/x.service", "[Service]\nExecStartPre=/bin/sh -c 'git clone x'\n", "runs git"},
		{"a drop-in that pulls an image", "/etc/systemd/system/a.service.d/x.conf", "[Service]\nExecStartPre=/usr/bin/ctr -n k8s.io images pull docker.io/x\n", "runs ctr"},
		{"a udev rule", "/usr/lib/udev/rules.d/x.rules", `ACTION=="add", RUN+="/usr/bin/wget x"`, "runs wget"},
		{"a script", "/usr/sbin/x", "#!/bin/sh\ntrue && apt-get install x\n", "runs apt-get"},
		{"a script with a substitution", "/usr/sbin/x", "#!/bin/sh\nx=$(curl -s y)\n", "runs curl"},
		{"a script with a pull", "/usr/sbin/x", "#!/bin/sh\ncrictl --timeout 5s pull y\n", "runs crictl"},
		{"a script in Python", "/usr/sbin/x", "#!/usr/bin/python3\nsubprocess.run([\"rsync\", x])\n", "runs rsync"},
		{"a script in Python with its library", "/usr/sbin/x", "#!/usr/bin/python3\nurllib.request.urlopen(x)\n", "uses urlopen"},
		{"a pod's image", "/usr/share/pods/x.yaml", "spec:\n  containers:\n  - image: \"registry.k8s.io/pause:3.10\" # x\n", "does not carry the image registry.k8s.io/pause:3.10"},
		{"a pod's image in JSON", "/usr/share/pods/x.json", `{"containers":[{"image": "docker.io/calico/node:v3"}]}`, "does not carry the image docker.io/calico/node:v3"},
		{"containerd's own image", "/etc/containerd/config.toml", "  sandbox_image = \"registry.k8s.io/pause:3.10\"\n", "does not carry the image"},
		{"an image that is pulled always", "/usr/share/pods/x.yaml", "  image: " + kubernetes.PauseImage + "\n  imagePullPolicy: Always\n", "pulled at each start"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := look(t, func(root, _ map[string]string) { root[tt.path] = tt.text }, "ro")
			require.Equal(t, 1, r.Findings(), "%+v", r.Checks)
			for _, c := range r.Checks {
				for _, f := range c.Findings {
					require.True(t, strings.HasPrefix(tt.path, f.Path), f.Path)
					require.Contains(t, f.Why, tt.why)
				}
			}
		})
	}
}

func TestOtherPlacesAreLookedAt(t *testing.T) {
	r := look(t, func(_, cluster map[string]string) { cluster["/services/x.yaml"] = "image: other:1\n" }, "ro")
	require.Equal(t, 1, r.Findings())
	r = look(t, func(_, _ map[string]string) {}, "ro root=http://example.test/root")
	require.Equal(t, 1, r.Findings())
	r = look(t, func(root, _ map[string]string) { delete(root, "/usr/share/spore/images/pause.tar") }, "ro")
	require.Equal(t, 3, r.Findings(), "the archive, the pause image and the pod that names it")
	r = look(t, func(root, _ map[string]string) {
		delete(root, "/usr/share/spore/images/images.json")
		delete(root, "/usr/share/pods/a.yaml")
	}, "ro")
	require.Equal(t, 1, r.Findings(), "the pause image")
}
