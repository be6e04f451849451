package cluster

// badImage holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badImage = []badInput{
	{
		"another suite",
		[]edit{{"image.yaml", "suite: trixie", "suite: bookworm"}},
		[]string{
			`image.yaml:6:8: error: the suite "bookworm" is unknown; write trixie`,
		},
	},
	{
		"a misspelt component",
		[]edit{{"image.yaml", "components: [main]", "components: [main, non-free-firmwre]"}},
		[]string{
			`image.yaml:9:20: error: the component "non-free-firmwre" is unknown; did you mean "non-free-firmware"?`,
		},
	},
	{
		"components without main",
		[]edit{{"image.yaml", "components: [main]", "components: [non-free-firmware]"}},
		[]string{
			`image.yaml:9:13: error: the components lack main, on which everything else depends; add it`,
		},
	},
	{
		"a kernel that does not exist",
		[]edit{{"image.yaml", "kernel: generic", "kernel: realtime"}},
		[]string{
			`image.yaml:12:9: error: the kernel "realtime" is unknown; write generic or cloud`,
		},
	},
	{
		"microcode without its component",
		[]edit{{"image.yaml", "microcode: false", "microcode: true"}},
		[]string{
			`image.yaml:15:12: error: microcode is in the component non-free-firmware; write components: [main, non-free-firmware], or microcode: false`,
		},
	},
	{
		"microcode in virtual machines",
		[]edit{
			{"image.yaml", "microcode: false", "microcode: true"},
			{"image.yaml", "components: [main]", "components: [main, non-free-firmware]"},
			{"image.yaml", "kernel: generic", "kernel: cloud"},
		},
		[]string{
			`image.yaml:15:12: warning: a virtual machine gets its microcode from its host; with the cloud kernel, write microcode: false`,
		},
	},
	{
		"a package with a version",
		[]edit{{"image.yaml", "packages: []", "packages: [tcpdump=4.99]"}},
		[]string{
			`image.yaml:18:12: error: "tcpdump=4.99" is not the name of a Debian package; write the name alone, such as tcpdump, without version or architecture`,
		},
	},
	{
		"a package twice",
		[]edit{{"image.yaml", "packages: []", "packages: [tcpdump, tcpdump]"}},
		[]string{
			`image.yaml:18:21: error: the package "tcpdump" exists already, at image.yaml:18; remove one`,
		},
	},
	{
		"what nothing leaves out",
		[]edit{{"image.yaml", "keep: []", "keep: [docs, sounds, docs]"}},
		[]string{
			`image.yaml:30:14: error: the kind "sounds" is unknown; did you mean "sound"?`,
			`image.yaml:30:22: error: the kind "docs" exists already, at image.yaml:30; remove one`,
		},
	},
	{
		"paths that nothing can put back",
		[]edit{{"image.yaml", "keepPaths: []", "keepPaths: [/usr/share/zsh, usr/share/zsh, /usr/share/zsh/, '/usr/share/[a']"}},
		[]string{
			`image.yaml:31:29: error: "usr/share/zsh" is not the path of a file or directory; write one as it is in the package, such as /usr/share/zsh or /usr/share/locale/de*`,
			`image.yaml:31:44: error: "/usr/share/zsh/" is not the path of a file or directory; write one as it is in the package, such as /usr/share/zsh or /usr/share/locale/de*`,
			`image.yaml:31:61: error: "/usr/share/[a" is not the path of a file or directory; write one as it is in the package, such as /usr/share/zsh or /usr/share/locale/de*`,
		},
	},
	{
		"a path that decides how a machine starts",
		[]edit{{"image.yaml", "keepPaths: []", "keepPaths: [/usr/share/zsh, /usr/lib/systemd/system-generators, /usr/share/zsh]"}},
		[]string{
			`image.yaml:31:29: error: /usr/lib/systemd/system-generators cannot be put back: files there decide how a machine starts; write a path below /usr/bin/, /usr/games/, /usr/include/, /usr/lib/firmware/, /usr/lib/jvm/, /usr/lib/modules/, /usr/lib/x86_64-linux-gnu/, /usr/sbin/, /usr/share/`,
			`image.yaml:31:65: error: the path "/usr/share/zsh" exists already, at image.yaml:31; remove one`,
		},
	},
	{
		"a mirror that is not a URL",
		[]edit{{"image.yaml", "suite: trixie", "mirror: mirror.example/debian"}},
		[]string{
			`image.yaml:6:9: error: "mirror.example/debian" is not the URL of an archive; write http:// or https://, host and path, such as https://mirror.example/debian`,
		},
	},
	{
		"a kernel argument that would replace init",
		[]edit{{"image.yaml", "kernelArguments: []", "kernelArguments: [init=/bin/sh]"}},
		[]string{
			`image.yaml:19:19: error: the kernel argument init cannot be set here: the machine starts systemd and nothing else; remove it`,
		},
	},
	{
		"a kernel argument that makes every machine one node",
		[]edit{{"image.yaml", "kernelArguments: []", "kernelArguments: [spore.node=edge-01]"}},
		[]string{
			"image.yaml:19:19: error: the kernel argument spore.node cannot be set here: it would make every machine that node; use `spore flash --node`; remove it",
		},
	},
	{
		"two kernel arguments in one",
		[]edit{{"image.yaml", "kernelArguments: []", "kernelArguments: [\"quiet splash\"]"}},
		[]string{
			`image.yaml:19:19: error: "quiet splash" is not one word of a kernel command line; write each word as an entry of its own, without blanks and quotes`,
		},
	},
	{
		"a slot below the layout",
		[]edit{{"image.yaml", "root: 2048", "root: 1024"}},
		[]string{
			`image.yaml:22:26: error: the slot root of 1024 MiB is below the fixed layout; write 2048 or more`,
		},
	},
	{
		"a slot in bytes",
		[]edit{{"image.yaml", "cluster: 64", "cluster: 67108864"}},
		[]string{
			`image.yaml:22:53: error: the slot cluster of 67108864 MiB is out of bounds; sizes are in MiB, write 64 to 1048576`,
		},
	},
	{
		"a root that outgrows its hash tree",
		[]edit{{"image.yaml", "root: 2048", "root: 8192"}},
		[]string{
			`image.yaml:22:26: error: a root of 8192 MiB needs 66 MiB for its hash tree, and the slot verity has 32; write verity: 66`,
		},
	},
	{
		"a format that is not built",
		[]edit{{"image.yaml", "formats: [disk, uki]", "formats: [disk, vmdk]"}},
		[]string{
			`image.yaml:26:17: error: the format "vmdk" is unknown; write disk, iso, netboot or uki`,
		},
	},
}
