# A program that uses memory in one of several ways.
require "json"
require "socket"

work, ram, seconds = ARGV[0], ARGV[1].to_i, ARGV[2].to_f
MB = 1 << 20
BEGAN = Time.now

def text(size) = "x" * size

def member(id) = { id: id, name: "member #{id}", roles: [id, id + 1], joined: Time.now.to_i }

works = {
  "bot" => lambda do # members and the last messages of channels, and a message now and then
    members = (0...20000).to_h { |id| [id, member(id)] }
    channels = Array.new(20) { [] }
    message = { content: text(1000), author: member(1), embeds: [{ fields: [{ name: "a", value: text(500) }] }] }
    lambda do
      channel = channels.sample
      channel.push(JSON.parse(JSON.generate(message)))
      channel.shift if channel.size > 200
      id = rand(20000)
      members[id] = member(id)
    end
  end,
  "cache" => lambda do # entries that are replaced, by several threads
    all = Array.new((0.42 * ram * MB / 10240).to_i) { text(rand(500..20000)) }
    4.times { Thread.new { loop { all[rand(all.size)] = text(rand(500..20000)) } } }
    -> { all[rand(all.size)] = text(rand(500..20000)) }
  end,
  "garbage" => lambda do # what nobody keeps
    -> { Array.new(100) { |i| { i: i, value: text(1000) } } }
  end,
  "buffers" => lambda do
    all = Array.new((0.3 * ram * MB / 65536).to_i) { text(65536) }
    -> { all[rand(all.size)] = text(65536) }
  end,
  "leak" => lambda do # a third of the RAM in a second
    all = []
    -> { all.push(text(10000)) if all.size * 10240 < (Time.now - BEGAN) * ram / 3 * MB }
  end,
  "web" => lambda do
    server = TCPServer.new("127.0.0.1", ENV["PORT"].to_i)
    Thread.new do
      loop do
        Thread.new(server.accept) do |client|
          while (line = client.gets)
            next unless line == "\r\n"
            body = JSON.generate(Array.new(200) { |i| { i: i, value: text(100) } })
            client.write("HTTP/1.1 200 OK\r\nContent-Length: #{body.bytesize}\r\n\r\n", body)
          end
        end
      end
    end
    nil
  end,
}

step, operations = works.fetch(work).call, 0
while Time.now - BEGAN < seconds
  if step
    step.call
    operations += 1
  else
    sleep 0.05
  end
end
$stdout.puts "operations #{operations}"
$stdout.flush
exit!(0)
