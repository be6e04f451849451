//go:build e2e

package nspawn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"spore/test/client"
)

// rareWord is in one line of one node.
const rareWord = "quokka"

// The topic and the group of the tests, which confirmed fewer records than there are.
const (
	topicOfPages, groupOfPages = "measurements", "historian " + hostile
	records, behindOfPages     = 500, 123
)

// work gives the services something to tell of.
func (l *pagesLab) work(t *testing.T) {
	l.worksKubernetes(t)
	l.worksKafka(t)
	l.worksMQTT(t)
	one := l.Node("node-1")
	one.MustExec("sh", "-ec", anOSD)
	l.mons.within("the pool takes objects", func() error {
		_, err := one.Exec("sh", "-ec", "head -c 5000000 /dev/urandom > /run/object && timeout 30 rados -c "+cephConf+" -p measurements put first /run/object")
		return err
	})
	one.MustExec("sh", "-ec", `printf '%s\n' "$0" | systemd-cat --identifier=press --priority=err`, rareWord+" "+hostile)
	go l.asks(t.Context(), l.Node("node-2"))
}

// object is one of Kubernetes.
type object = map[string]any

// worksKubernetes makes nodes that only their objects are of, work that none of them takes, and volumes that nobody makes.
func (l *pagesLab) worksKubernetes(t *testing.T) {
	api := l.masters.api(l.Node("node-1"))
	node := func(name, ready string, wrong object) {
		o := object{"metadata": object{"name": name, "annotations": object{"press": hostile}}, "spec": object{"unschedulable": true}}
		l.masters.within("a node", func() error {
			return ignoreExists(ask(api, http.MethodPost, "/api/v1/nodes", o, nil))
		})
		conditions := []any{object{"type": "Ready", "status": ready, "reason": "KubeletNotReady", "message": "the runtime is down " + hostile}}
		if wrong != nil {
			conditions = append(conditions, wrong)
		}
		status := object{"conditions": conditions, "nodeInfo": object{
			"kubeletVersion": "v9.8.7 " + hostile, "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
			"containerRuntimeVersion": "", "kubeProxyVersion": "", "operatingSystem": "", "architecture": "",
		}}
		l.masters.within("the status of a node", func() error { // Controllers change the object, too.
			var now object
			if err := ask(api, http.MethodGet, "/api/v1/nodes/"+name, nil, &now); err != nil {
				return err
			}
			now["status"] = status
			return ask(api, http.MethodPut, "/api/v1/nodes/"+name+"/status", now, nil)
		})
	}
	node("press-1", "False", nil)
	node("press-2", "True", object{"type": "DiskPressure", "status": "True"})
	require.ErrorContains(t, ask(api, http.MethodPost, "/api/v1/nodes", object{"metadata": object{"name": hostile}}, nil), "Invalid",
		"no object has such a name")
	const apps, claims = "/apis/apps/v1/namespaces/default/deployments", "/api/v1/namespaces/default/persistentvolumeclaims"
	labels := object{"app": "press"}
	l.masters.within("the namespace takes objects", func() error {
		return ignoreExists(ask(api, http.MethodPost, apps, object{"metadata": object{"name": "press", "annotations": object{"note": hostile}}, "spec": object{
			"replicas": 3, "selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": object{"containers": []any{object{"name": "press", "image": "press.example/press:1"}}}},
		}}, nil))
	})
	require.NoError(t, ask(api, http.MethodPost, claims, object{"metadata": object{"name": "recipes"}, "spec": object{
		"accessModes": []string{"ReadWriteOnce"}, "storageClassName": "nobodys", "resources": object{"requests": object{"storage": "3Gi"}},
	}}, nil))
}

func ignoreExists(err error) error {
	if err != nil && strings.Contains(err.Error(), "409 Conflict") {
		return nil
	}
	return err
}

// worksKafka makes a topic with records, and a group that is behind.
func (l *pagesLab) worksKafka(t *testing.T) {
	for name, copies := range map[string]int16{topicOfPages: 3, "single": 1} {
		l.brokers.within("topics can be made", func(ctx context.Context) error {
			made, err := l.brokers.admin.CreateTopic(ctx, 4, copies, nil, name)
			return errors.Join(err, made.Err)
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), kafkaLimit)
	defer cancel()
	for i := range records {
		l.brokers.client.Produce(ctx, &kgo.Record{Topic: topicOfPages, Partition: int32(i % 4), Value: []byte(fmt.Sprint(i))}, nil)
	}
	require.NoError(t, l.brokers.client.Flush(ctx))
	ends, err := l.brokers.admin.ListEndOffsets(ctx, topicOfPages)
	require.NoError(t, err)
	read, left := kadm.Offsets{}, int64(behindOfPages)
	ends.Each(func(o kadm.ListedOffset) {
		less := min(left, o.Offset)
		left -= less
		read.AddOffset(o.Topic, o.Partition, o.Offset-less, -1)
	})
	require.Zero(t, left)
	require.NoError(t, l.brokers.admin.CommitAllOffsets(ctx, groupOfPages, read))
	_, err = l.brokers.admin.CreateTopic(ctx, 1, 1, nil, hostile)
	if err == nil {
		t.Fatal("a topic has such a name")
	}
}

// worksMQTT has clients that subscribe and publish, of which one stays away.
func (l *pagesLab) worksMQTT(t *testing.T) {
	n := l.Node("node-2")
	as := func(id string) *client.MQTT {
		c, err := client.DialMQTT(client.MQTTOptions{
			Address: net.JoinHostPort(n.IP(), "8883"), ServerName: n.Facts.FQDN, Roots: l.Authority("mqtt"), ID: id, User: "operator", Password: edgePassword,
		})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	sensor := as("plc-1")
	l.screen = as("screen " + hostile)
	require.NoError(t, l.screen.Subscribe("press/#"))
	require.NoError(t, l.screen.Subscribe("$SYS/broker/#"))
	for i := range 7 {
		require.NoError(t, sensor.Publish(fmt.Sprint("press/", i), "7", true))
	}
	go func() {
		for tick := time.NewTicker(250 * time.Millisecond); t.Context().Err() == nil; <-tick.C {
			_ = sensor.Publish("press/strokes", "8", false)
		}
	}()
}

// asks has a DNS server of the cluster be asked all the time: twice a second for a name that it has, and four times for
// one that it has not.
func (l *pagesLab) asks(ctx context.Context, server *Node) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, name := range []string{"node-1", "nobody", "nobody"} {
			_, _ = client.Ask("udp", net.JoinHostPort(server.IP(), "53"), name+"."+l.Cluster.Domain+".", "A")
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
