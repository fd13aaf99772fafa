package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/paho"
	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// live311 is a connection of MQTT 3.1.1, whose session stays.
func (d *attacked) live311(ctx context.Context, l dialect, qos byte, orderly bool) {
	_, addr := d.at.get()
	begun := time.Now()
	conns := make(chan net.Conn, 1)
	o := mqtt.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(d.id).SetUsername(d.id).
		SetCleanSession(false).SetAutoReconnect(false).SetOrderMatters(false).SetConnectTimeout(attackTry).SetWriteTimeout(attackTry)
	o.SetCustomOpenConnectionFn(func(uri *url.URL, _ mqtt.ClientOptions) (net.Conn, error) {
		var dialer net.Dialer
		nc, err := dialer.DialContext(ctx, "tcp", uri.Host)
		if err == nil {
			conns <- nc
		}
		return nc, err
	})
	o.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
		name, to, answer := l.command(d.id, m.Topic(), m.Payload())
		d.take(name, packed(to, answer), begun)
	})
	c := mqtt.NewClient(o)
	said := func(ctx context.Context, token mqtt.Token) error {
		select {
		case <-token.Done():
			return token.Error()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() {
		if orderly {
			c.Disconnect(50)
		}
		select {
		case nc := <-conns:
			_ = nc.Close()
		default: // it could not connect
		}
		c.Disconnect(0) // its goroutines
	}()
	if said(ctx, c.Connect()) != nil {
		return
	}
	topic := l.subscription
	if strings.Contains(topic, "%s") {
		topic = fmt.Sprintf(topic, d.id)
	}
	if said(ctx, c.Subscribe(topic, qos, nil)) != nil {
		return
	}
	d.answerAll(ctx, func(ctx context.Context, name, answer string) error {
		to, body, _ := strings.Cut(answer, "\n")
		err := said(ctx, c.Publish(to, qos, false, body))
		if err == nil && !c.IsConnectionOpen() { // what is on its way then is taken for done
			err = errors.New("the connection was cut")
		}
		if err == nil && qos == 0 {
			err = d.done(ctx, name)
		}
		return err
	})
}

// live5 is a connection of MQTT 5 with QoS 2, whose session stays.
func (d *attacked) live5(ctx context.Context, orderly bool) {
	_, addr := d.at.get()
	begun := time.Now()
	var dialer net.Dialer
	nc, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer nc.Close()
	c := paho.NewClient(paho.ClientConfig{
		Conn: nc, ClientID: d.id, PacketTimeout: attackTry,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(m paho.PublishReceived) (bool, error) {
			name, to, answer := native.command(d.id, m.Packet.Topic, m.Packet.Payload)
			d.take(name, packed(to, answer), begun)
			return true, nil
		}},
	})
	expiry := uint32(time.Hour / time.Second)
	if _, err := c.Connect(context.WithoutCancel(ctx), &paho.Connect{ClientID: d.id, KeepAlive: 30, Properties: &paho.ConnectProperties{SessionExpiryInterval: &expiry}}); err != nil {
		return
	}
	if orderly {
		defer func() { _ = c.Disconnect(&paho.Disconnect{}) }() // it may have been taken over
	}
	if _, err := c.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "e/" + d.id + "/commands", QoS: 2}}}); err != nil {
		return
	}
	d.answerAll(ctx, func(ctx context.Context, _, answer string) error {
		to, body, _ := strings.Cut(answer, "\n")
		_, err := c.Publish(ctx, &paho.Publish{Topic: to, QoS: 2, Payload: []byte(body)})
		return err
	})
}
