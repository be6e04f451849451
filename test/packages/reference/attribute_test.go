package reference

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at is a time of dpkg's log.
func at(seconds int64) string { return time.Unix(seconds, 0).Format(time.DateTime) }

func TestEachPathHasThePackageThatMadeIt(t *testing.T) {
	log := at(100) + " configure redis-server:amd64 5:8.0 <none>\n" +
		at(100) + " status half-configured redis-server:amd64 5:8.0\n" +
		at(101) + " status installed redis-server:amd64 5:8.0\n" +
		at(200) + " configure cron:amd64 3.0 <none>\n" + at(201) + " status installed cron:amd64 3.0\n"
	r := rootOf(t, log,
		file(infoDir+"/redis-server.list",
			"/.\n/etc\n/lib/systemd/system/redis.service\n/etc/init.d/redis-server\n/usr/bin/more\n"),
		file(infoDir+"/redis-server.postinst", "#!/bin/sh\nmkdir -p /var/log/redis/old\n# /var/lib/shared\n"),
		file(infoDir+"/cron:amd64.list", "/.\n/etc\n/usr/sbin/cron\n"),
		file(infoDir+"/cron:amd64.postinst", "#!/bin/sh\ntouch /etc/crontabs\n# /var/lib/shared\n"),
		file("/var/lib/dpkg/diversions", "/usr/bin/more\n/usr/bin/more.real\ncron\n"),
		file("/usr/sbin/cron", "elf"), folder("/etc", 100), file("/usr/lib/systemd/system/redis.service", ""),
		file("/etc/init.d/redis-server", ""), link("/etc/rc3.d/S01redis", "../init.d/redis-server", 200),
		link("/etc/systemd/system/multi-user.target.wants/redis.service", "/lib/systemd/system/redis.service", 1),
		file("/var/lib/systemd/deb-systemd-helper-enabled/redis.service.dsh-also", ""),
		folder("/var/log/redis/old", 1), folder("/var/log/redis/old/deep", 1), folder("/var/log/redisx", 1),
		folder("/var/lib/shared", 200), folder("/var/lib/shared/early", 1), folder("/var/spool/one", 201),
		folder("/var/spool/two", 300),
		file("/usr/bin/more.real", ""),
	)
	for p, want := range map[string]string{
		"/usr/sbin/cron":                        "cron",
		"/etc":                                  "", // a folder of both
		"/usr/lib/systemd/system/redis.service": "redis-server",
		"/usr/bin/more.real":                    "redis-server", // the diverted file
		"/etc/rc3.d/S01redis":                   "redis-server", // what the link leads to
		"/etc/systemd/system/multi-user.target.wants/redis.service":          "redis-server",
		"/var/lib/systemd/deb-systemd-helper-enabled/redis.service.dsh-also": "redis-server",
		"/var/log/redis/old":      "redis-server", // its script names it
		"/var/log/redis/old/deep": "redis-server", // … or a folder above
		"/var/log/redisx":         "",
		"/var/lib/shared":         "cron", // both name it, and cron was configured then
		"/var/lib/shared/early":   "",
		"/var/spool/one":          "cron", // made while cron was configured
		"/var/spool/two":          "",
		"/var/lib/dpkg/status":    "",
	} {
		require.Contains(t, r.Files, p)
		require.Equal(t, want, r.Files[p].Package, p)
	}
}

func TestALogWithoutTimesIsRefused(t *testing.T) {
	_, err := readLog("yesterday evening configure cron:amd64\n")
	require.ErrorContains(t, err, "dpkg's log")
	windows, err := readLog("\nshort line\n")
	require.NoError(t, err)
	require.Empty(t, windows)
}
