// Package serve is the bridge of alerts: it takes what Alertmanager posts on the node's loopback interface, and tells
// MQTT and syslog what Alertmanager itself cannot tell. It keeps nothing: it answers when the other side has the
// message, and who is refused asks again. So Alertmanager, which knows after a start what it has sent, is the queue.
package serve

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"spore/agent/alerts/mqtt"
	"spore/agent/alerts/notice"
	"spore/agent/alerts/syslog"
	"spore/agent/plant"
	"spore/services/metrics/bridge"
)

const (
	// patience is how long a message may take to be delivered. Alertmanager waits for 20 s.
	patience = 15 * time.Second
	// most is how many messages are under way to one receiver; who comes then is told to come again. A receiver that
	// does not answer holds up no other, and not the heartbeat.
	most = 4
	// quiet is for how long nothing more is said about the same receiver: Alertmanager asks again every few seconds.
	quiet = time.Minute
)

// Bridge is the bridge.
type Bridge struct {
	config bridge.Config
	now    func() time.Time
	log    func(string)
	// slots are those of each path.
	slots map[string]chan struct{}

	mu sync.Mutex
	// said is when the last complaint about a path was in the log; "" is for all that are none.
	said map[string]time.Time
	// counts are those of each path.
	counts map[string]*count
}

// New makes a bridge. log takes a line for people.
func New(c bridge.Config, now func() time.Time, log func(string)) *Bridge {
	b := &Bridge{config: c, now: now, log: log, said: map[string]time.Time{}, slots: map[string]chan struct{}{
		bridge.HeartbeatPath: make(chan struct{}, most),
	}, counts: map[string]*count{bridge.HeartbeatPath: {}}}
	for name := range c.Receivers {
		b.slots[bridge.ReceiverPath+name] = make(chan struct{}, most)
		b.counts[bridge.ReceiverPath+name] = &count{}
	}
	return b
}

// Serve answers until the context ends.
func (b *Bridge) Serve(ctx context.Context, l net.Listener) error {
	s := http.Server{
		Handler: b, ReadTimeout: 10 * time.Second, WriteTimeout: patience + 5*time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() {
		until, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = s.Shutdown(until) // What is under way then is asked for again.
	})
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve Alertmanager: %w", err)
	}
	return nil
}

// ServeHTTP takes one message.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := b.known(r); err != nil {
		b.refuse(w, "", http.StatusUnauthorized, err)
		return
	}
	path := r.URL.Path
	if path == metricsPath && r.Method == http.MethodGet {
		b.metrics(w)
		return
	}
	slots, found := b.slots[path]
	if !found {
		b.refuse(w, "", http.StatusNotFound, fmt.Errorf("there is nothing at %.64q", path))
		return
	}
	if r.Method != http.MethodPost {
		b.refuse(w, path, http.StatusMethodNotAllowed, fmt.Errorf("the method %.16q is not POST", r.Method))
		return
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		err := fmt.Errorf("%d messages for %s are under way, and one more waits", most, path)
		b.refuse(w, path, http.StatusServiceUnavailable, err)
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, notice.MaxSize))
	if err != nil {
		b.refuse(w, path, http.StatusBadRequest, fmt.Errorf("read the message for %s: %w", path, err))
		return
	}
	alerts, err := notice.Parse(data)
	if err != nil {
		b.refuse(w, path, http.StatusBadRequest, fmt.Errorf("for %s: %w", path, err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	defer func() { b.counted(path, err) }()
	if path == bridge.HeartbeatPath {
		err = b.heartbeat(ctx, alerts)
	} else {
		name := strings.TrimPrefix(path, bridge.ReceiverPath)
		if err = b.tell(ctx, b.config.Receivers[name], alerts); err != nil {
			err = fmt.Errorf("tell %s: %w", name, err)
		}
	}
	if err != nil {
		b.refuse(w, path, http.StatusBadGateway, err)
	}
}

// refuse refuses a message, and says why in the log.
func (b *Bridge) refuse(w http.ResponseWriter, path string, code int, err error) {
	b.complain(path, notice.Text(err.Error(), 1024))
	http.Error(w, http.StatusText(code), code)
}

// complain logs a text when nothing was in the log about its path within the last minute. Texts of one trouble differ,
// such as by the port of a connection, so that they do not tell whether it is the same one.
func (b *Bridge) complain(path, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	last, before := b.said[path]
	if since := now.Sub(last); before && since >= 0 && since < quiet {
		return
	}
	b.said[path] = now
	b.log(text)
}

// known tells whether Alertmanager asks.
func (b *Bridge) known(r *http.Request) error {
	want, err := plant.Secret(b.config.PasswordFile)
	if err != nil {
		return err
	}
	got, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
		return errors.New("somebody asks without the password of Alertmanager")
	}
	return nil
}

// tell sends alerts to a receiver.
func (b *Bridge) tell(ctx context.Context, to bridge.Receiver, alerts []notice.Alert) error {
	switch {
	case to.MQTT != nil:
		messages := make([]mqtt.Message, 0, len(alerts))
		for _, a := range alerts {
			m, err := b.message(to.MQTT.Topic, a)
			if err != nil {
				return err
			}
			messages = append(messages, m)
		}
		return b.publish(ctx, *to.MQTT, messages)
	case to.Syslog != nil:
		config, err := plant.TLS(to.Syslog.CA)
		if err != nil {
			return err
		}
		lines := make([][]byte, 0, len(alerts))
		for _, a := range alerts {
			lines = append(lines, syslog.Line(a, b.config.Cluster, b.config.Node, b.now()))
		}
		return syslog.Server{Address: to.Syslog.Address, Transport: to.Syslog.Transport, TLS: config}.Send(ctx, lines)
	}
	return errors.New("internal error: the receiver has neither mqtt nor syslog")
}

func (b *Bridge) publish(ctx context.Context, to bridge.MQTT, messages []mqtt.Message) error {
	password, err := plant.Secret(to.PasswordFile)
	if err != nil {
		return err
	}
	config, err := plant.TLS(to.CA)
	if err != nil {
		return err
	}
	return mqtt.Publish(ctx, mqtt.Broker{Address: to.Address, User: to.User, Password: password, TLS: config}, messages)
}
