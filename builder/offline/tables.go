package offline

// fetchers are programs that do little else than fetch, by their names; most of them come with Debian.
var fetchers = []string{
	"apt", "apt-get", "aptitude", "aria2c", "axel", "bower", "buildah", "cargo", "cdebootstrap", "composer", "cpan", "crane", "curl", "debootstrap",
	"dnf", "docker", "dpkg", "flatpak", "ftp", "fwupdmgr", "gem", "git", "git-remote-https", "go", "gradle", "helm", "importctl", "lftp", "lwp-request",
	"lynx", "mmdebstrap", "multistrap", "mvn", "ncftp", "nerdctl", "npm", "npx", "opkg", "pacman", "pip", "pip3", "pipx", "pkcon", "podman", "rclone",
	"rsync", "scp", "sftp", "skopeo", "snap", "svn", "systemd-importd", "systemd-pull", "systemd-sysupdate", "tftp", "unattended-upgrade", "uv",
	"w3m", "wget", "wget2", "yarn", "yum", "zypper",
}

// sourcePaths are patterns (path.Match) of what tells package managers and schedulers what to fetch, and when.
var sourcePaths = []string{
	"/etc/apt", "/etc/yum.repos.d", "/etc/crontab", "/etc/cron.*", "/etc/anacrontab", "/var/spool/cron", "/etc/docker", "/etc/containers",
	"/etc/containerd/certs.d", "/etc/pip.conf", "/etc/sysupdate.d", "/usr/lib/sysupdate.d", "/usr/lib/systemd/system-generators/systemd-import-generator",
}

// onDemand are programs that a service needs, or people who look for a fault, and that fetch when they are told what.
var onDemand = map[string]string{
	"containerd": "pulls an image that a pod names and that it does not hold; no file of the image names one",
	"crictl":     "pulls images for a person; nothing in the image runs it so",
	"ctr":        "pulls images for a person; spore-agent imports archives of the root with it",
	"openssl":    "opens connections for a person; nothing in the image runs it so",
	"python3":    "has modules for HTTP; Ceph's manager runs its own modules with it",
	"bash":       "opens connections as /dev/tcp; no script of the image does",
}
