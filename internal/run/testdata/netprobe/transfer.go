package main

import (
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// castagnoli is quick where the processor helps.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// transfer moves bytes:
//
//	down VIA HOST PORT           read to the end, print the number of bytes and their sum
//	up VIA HOST PORT BYTES       say so many, print what the server says in the end
//	many VIA HOST PORT N         N echoing connections at once
//	hold VIA HOST PORT N         N connections that stay; prints "holding"
func transfer(what string, args []string) {
	a := Attempt{Via: args[0], Host: args[1], Port: args[2]}
	n := 0
	if len(args) > 3 {
		var err error
		n, err = strconv.Atoi(args[3])
		check(err)
	}
	switch what {
	case "down":
		down(a)
	case "up":
		up(a, n)
	case "many":
		many(a, n)
	case "hold":
		for range n {
			open(a)
		}
		fmt.Println("holding")
		time.Sleep(time.Hour) // an empty select would be found to be a deadlock
	}
}

func open(a Attempt) (net.Conn, io.Reader) {
	var c net.Conn
	var r io.Reader
	var err error
	if a.Via == "direct" {
		c, err = dial("tcp", net.JoinHostPort(a.Host, a.Port))
		r = c
	} else {
		c, r, err = tunnel(a)
	}
	check(err)
	check(c.SetDeadline(time.Time{}))
	return c, r
}

func down(a Attempt) {
	_, r := open(a)
	sum := crc32.New(castagnoli)
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{r}, make([]byte, 1<<20))
	check(err)
	fmt.Printf("%d %08x\n", n, sum.Sum32())
}

func up(a Attempt, n int) {
	c, r := open(a)
	sum := crc32.New(castagnoli)
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 7 >> 3)
	}
	for i := 0; n > 0; i++ {
		part := block[:min(n, len(block))]
		copy(part, strconv.Itoa(i)+" ")
		_, err := c.Write(part)
		check(err)
		_, _ = sum.Write(part)
		n -= len(part)
	}
	check(c.(*net.TCPConn).CloseWrite())
	said, err := io.ReadAll(r)
	check(err)
	fmt.Printf("%s%08x\n", said, sum.Sum32())
}

// many opens all connections before the first one says anything.
func many(a Attempt, n int) {
	type end struct {
		c net.Conn
		r io.Reader
	}
	ends := make([]end, n)
	var all sync.WaitGroup
	for i := range ends {
		all.Go(func() { ends[i].c, ends[i].r = open(a) })
	}
	all.Wait()
	for i := range ends {
		all.Go(func() {
			text := fmt.Sprintf("connection %d of many\n", i)
			_, err := io.WriteString(ends[i].c, text)
			check(err)
			check(ends[i].c.(*net.TCPConn).CloseWrite())
			got, err := io.ReadAll(ends[i].r)
			check(err)
			if string(got) != text {
				check(fmt.Errorf("connection %d heard %q", i, got))
			}
		})
	}
	all.Wait()
	fmt.Println("all", n)
}
