// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

/// Shares that a wallet moves: events, a custom error, a reason, a panic, and environment of the block.
contract Vault {
    string public label;
    mapping(address => uint256) public shares;
    uint256 public moves;

    event Moved(address indexed from, address indexed to, uint256 amount, uint256 count);

    error TooFew(address owner, uint256 has, uint256 wanted);

    constructor(string memory label_, uint256 amount) {
        label = label_;
        shares[msg.sender] = amount;
        emit Moved(address(0), msg.sender, amount, 0);
    }

    function move(address to, uint256 amount) external returns (uint256) {
        uint256 has = shares[msg.sender];
        if (has < amount) revert TooFew(msg.sender, has, amount);
        unchecked {
            shares[msg.sender] = has - amount;
            shares[to] += amount;
        }
        moves += 1;
        emit Moved(msg.sender, to, amount, moves);
        return moves;
    }

    function refuse(uint256 kind) external view returns (uint256) {
        require(kind != 0, "kind is zero");
        return 10 / (kind - 1) + shares[msg.sender];
    }

    function setting() external view returns (uint256 number, bytes32 parent, uint256 chain, uint256 basefee, address coinbase) {
        return (block.number, blockhash(block.number - 1), block.chainid, block.basefee, block.coinbase);
    }
}
