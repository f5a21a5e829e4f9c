package main

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	datagram    = 64 << 10
	buffer      = 4 << 20 // of the socket: a datagram that finds it full is lost
	readTimeout = 10 * time.Second
)

// counters are what versitygw counts, for Prometheus. It sends them as StatsD datagrams; these come to this process.
type counters struct {
	bucket   string
	mutex    sync.Mutex
	requests map[string]int64 // by status
	bytes    map[string]int64 // by direction
}

// countRequests serves /metrics of a bucket at listen, and returns the StatsD server that versitygw is to send to.
func countRequests(bucket, listen string) (string, error) {
	web, err := net.Listen("tcp", listen)
	if err != nil {
		return "", err
	}
	statsd, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	if err := statsd.(*net.UDPConn).SetReadBuffer(buffer); err != nil {
		return "", err
	}
	found := &counters{
		bucket:   bucket,
		requests: map[string]int64{"200": 0, "500": 0},
		bytes:    map[string]int64{"read": 0, "written": 0},
	}
	go found.receive(statsd)
	server := http.Server{Handler: http.HandlerFunc(found.serve), ReadTimeout: readTimeout, WriteTimeout: readTimeout}
	go server.Serve(web)
	return statsd.LocalAddr().String(), nil
}

func (c *counters) receive(connection net.PacketConn) {
	packet := make([]byte, datagram)
	for {
		size, _, err := connection.ReadFrom(packet)
		if err != nil {
			return
		}
		for line := range strings.SplitSeq(string(packet[:size]), "\n") {
			c.add(line)
		}
	}
}

// add counts one line: versitygw.success_count,service=…,method=GET,…,status=200:1|c
func (c *counters) add(line string) {
	name, counted, found := strings.Cut(line, ":")
	if !found {
		return
	}
	value, err := strconv.ParseInt(strings.TrimSuffix(counted, "|c"), 10, 64)
	if err != nil {
		return
	}
	tags := strings.Split(name, ",")
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch tags[0] {
	case "versitygw.success_count", "versitygw.failed_count":
		for _, tag := range tags {
			if status, found := strings.CutPrefix(tag, "status="); found {
				c.requests[status] += value
			}
		}
	case "versitygw.bytes_read":
		c.bytes["read"] += value
	case "versitygw.bytes_written":
		c.bytes["written"] += value
	}
}

func (c *counters) serve(answer http.ResponseWriter, request *http.Request) {
	if request.URL.Path != "/metrics" {
		http.NotFound(answer, request)
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	answer.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for _, metric := range []struct {
		name, label string
		values      map[string]int64
	}{
		{"object_storage_requests_total", "code", c.requests},
		{"object_storage_bytes_total", "direction", c.bytes},
	} {
		fmt.Fprintf(answer, "# TYPE %s counter\n", metric.name)
		for _, key := range slices.Sorted(maps.Keys(metric.values)) {
			fmt.Fprintf(answer, "%s{bucket=%q,%s=%q} %d\n", metric.name, c.bucket, metric.label, key, metric.values[key])
		}
	}
}
